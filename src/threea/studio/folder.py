"""The one folder that the studio was started for: what is in it, and no way out of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from threea.errors import SettingError
from threea.ledger.log import is_ledger

_TABLES = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq", ".xlsx", ".xlsm")
_DEPTH, _MOST, _MOST_WALKED = 3, 500, 50_000
"""How deep a folder is looked through, how many files of a kind are listed, and after how many the search ends."""
_OF_A_RELEASE = ("synthetic.csv", "synthetic.parquet")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, beyond all links.

    Guarantees:
        - A path that leads outside, also through a link, is refused, and so is one that cannot be.
    """

    root: Path

    @classmethod
    def at(cls, path: Path) -> Folder:
        """Take a folder that is there.

        Raises:
            SettingError: It is none, or may not be read.
        """
        root = Path(os.path.realpath(path))
        if not root.is_dir() or not os.access(root, os.R_OK | os.X_OK):
            raise SettingError(f"folder ({path}) is not a folder that can be read; choose another")
        return cls(root)

    def inside(self, text: str) -> Path:
        """Return where a path within the folder leads.

        Raises:
            SettingError: It leads outside.
        """
        try:
            path = Path(os.path.realpath(self.root / text.strip()))
            str(path).encode()
        except (OSError, ValueError):
            raise SettingError("the path cannot be read; choose another") from None
        if not text.strip() or not path.is_relative_to(self.root):
            raise SettingError(f"path ({text.strip()}) must lead to something in the studio's folder")
        return path

    def named(self, path: Path) -> str:
        """Return a path in the folder as the owner sees it."""
        return path.relative_to(self.root).as_posix()

    def tables(self) -> list[str]:
        """List the files that look like tables, but for those of releases."""
        return self._listed(lambda path: path.name.lower().endswith(_TABLES) and path.name not in _OF_A_RELEASE)

    def schemas(self) -> list[str]:
        """List the schemas."""
        return self._listed(lambda path: path.suffix == ".toml" and "schema" in path.name)

    def releases(self) -> list[str]:
        """List the folders that hold a release."""
        found = self._listed(lambda path: path.name == "certificate.json")
        return [self.named((self.root / name).parent) for name in found]

    def ledgers(self) -> list[str]:
        """List the ledgers."""
        return self._listed(lambda path: path.suffix == ".db" and is_ledger(path))

    def _listed(self, wanted: Callable[[Path], bool]) -> list[str]:
        walked = islice(self._walked(), _MOST_WALKED)
        found = (path for path in walked if wanted(path) and self._is_inside(path))
        return sorted(self.named(path) for path in islice(found, _MOST))

    def _is_inside(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self.root)

    def _walked(self) -> Iterator[Path]:
        for place, folders, files in os.walk(self.root):
            depth = len(Path(place).relative_to(self.root).parts)
            folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < _DEPTH else []
            yield from (Path(place) / name for name in sorted(files) if not name.startswith("."))
