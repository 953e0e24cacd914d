"""A release as one self-contained HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from threea.certificate import Certificate
    from threea.framework import Release


def render(release: Release, certificate: Certificate, sample: pa.Table) -> str:
    """Return the page."""
    return ""
