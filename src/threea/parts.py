"""The files of a release's folder, and the hashes that its certificate gives them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from threea.errors import InputError

CERTIFICATE, MODEL, REPORT = "certificate.json", "model.threea", "report.html"
FORMATS = ("parquet", "csv")


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file; of a folder, that of the lines ``name  SHA-256`` of its files, sorted."""
    if path.is_dir():
        lines = (f"{file.name}  {digest_of(file)}\n" for file in sorted(path.iterdir()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def certificate_in(folder: Path) -> dict[str, Any]:
    """Read a folder's certificate.

    Raises:
        InputError: There is none that can be read.
    """
    path = folder / CERTIFICATE
    try:
        certificate = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        certificate = None
    if not isinstance(certificate, dict):
        raise InputError(f"{path} cannot be read; take the release again, or move {MODEL} elsewhere")
    return certificate


def check_parts(folder: Path, certificate: Mapping[str, Any]) -> int:
    """Refuse a folder one of whose files is not the one that the certificate names; return how many are.

    A file that is not there is not missed, nor is the report's hash, which the first certificates had not yet.

    Raises:
        InputError: A file is another.
    """
    compared = 0
    for path, digest in _named(folder, certificate):
        if not path.exists() or (digest is None and path.name == REPORT):
            continue
        try:
            same = digest_of(path) == digest
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); check it") from None
        if not same:
            what = "the model" if path.name == MODEL else "the file"
            raise InputError(f"{path} is not {what} that {CERTIFICATE} beside it names; take the release again")
        compared += 1
    return compared


def _named(folder: Path, certificate: Mapping[str, Any]) -> Iterator[tuple[Path, object]]:
    """Give each file that a release may have, with the hash that the certificate gives it, if it gives it any."""
    own = certificate.get("children")
    tables = [("synthetic", "schema", certificate)]
    if isinstance(own, Mapping):
        tables = [("parents", "parents", certificate), ("children", "children", own)]
    for rows, schema, stated in tables:
        for form in FORMATS:
            yield folder / f"{rows}.{form}", stated.get("synthetic_sha256")
        yield folder / f"{schema}.toml", stated.get("schema_sha256")
    yield folder / MODEL, certificate.get("model_sha256")
    yield folder / REPORT, certificate.get("report_sha256")
