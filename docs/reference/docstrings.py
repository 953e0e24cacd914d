"""Docstrings as the API pages need them: `Example:` is the heading that their reader knows as `Examples:`."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Name the sections of examples so that they are shown as code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the heading in one object's docstring."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
