"""Noisy answers in a file, one after another: each is on disk before anyone has it.

An answer takes as many bytes as its question's shape says, whatever the noise was; that of `Values` alone does not.
Nothing else about the rows is in the file.
"""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from threea.anonymize.query import Answer, Stack, origin_of

_FRAME = struct.Struct("<QI16s")
"""Before each answer: the bytes of what follows, those of its header, and a hash of both."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An answer as it was written: which question it answers, and the noisy numbers.

    Args:
        line: The line of the plan that paid for it.
        units: How many of the line's charges.
        question: A digest of the question.
        told: What of the answer is public: its kind, its shape, the noise's standard deviation.
        content: The noisy numbers.
    """

    line: str
    units: int
    question: str
    told: Mapping[str, Any]
    content: bytes

    def answer(self, asked: object) -> Any:
        """Return the answer to the question that was asked."""
        if self.told["kind"] == "choice":
            return int.from_bytes(self.content, "little", signed=True)
        if self.told["kind"] == "values":
            return json.loads(self.content)
        value = np.frombuffer(self.content, "<f8").astype(np.float64).reshape(self.told["shape"])
        stddev = float.fromhex(self.told["stddev"])
        return Answer(value, stddev, asked.parts(value, stddev) if isinstance(asked, Stack) else ())


class AnswerLog:
    """A file of answers, which one living process has at a time.

    Args:
        path: The file; it is made if it is not there.

    Raises:
        BlockingIOError: Another process has it.
        OSError: It cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._file = -1
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            lock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise

    @property
    def inode(self) -> int:
        """The number of the file: a copy has another."""
        return os.fstat(self._file).st_ino

    def read(self) -> list[Recorded]:
        """Return the answers, and cut off what a crash left of one that was being written: nobody had it."""
        size, start, answers = os.fstat(self._file).st_size, 0, []
        while start + _FRAME.size <= size:
            length, head, digest = _FRAME.unpack(os.pread(self._file, _FRAME.size, start))
            if head > length or start + _FRAME.size + length > size:
                break
            content = _read(self._file, length, start + _FRAME.size)
            if _hash(content) != digest:
                break
            answers.append(Recorded(**json.loads(content[:head]), content=content[head:]))
            start += _FRAME.size + length
        os.ftruncate(self._file, start)
        os.lseek(self._file, start, os.SEEK_SET)
        return answers

    def append(self, line: str, units: int, question: str, answer: Any) -> None:
        """Write an answer; it is on disk when this returns.

        Raises:
            OSError: The disk is full, or failed.
        """
        told, content = _encoded(answer)
        head = json.dumps({"line": line, "units": units, "question": question, "told": told}).encode()
        frame = memoryview(_FRAME.pack(len(head) + len(content), len(head), _hash(head + content)) + head + content)
        while frame:
            frame = frame[os.write(self._file, frame) :]
        os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file; closing twice is fine."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        """Let go of it, where nobody else did."""
        self.close()


def lock(descriptor: int, how: int) -> None:
    """Lock an open file, where the file system has locks."""
    try:
        fcntl.flock(descriptor, how)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def digest_of(question: object) -> str:
    """Return a digest of a public value: a query, a plan. Functions count by their names alone.

    Example:
        >>> from threea.anonymize.query import Count, Marginal
        >>> digest_of(Count()) == digest_of(Count()), digest_of(Count()) == digest_of(Marginal(()))
        (True, False)
    """
    hashed = hashlib.blake2b(digest_size=16)
    _feed(hashed, question)
    return hashed.hexdigest()


def _feed(hashed: Any, value: object) -> None:
    if isinstance(value, np.ndarray):
        hashed.update(f"{value.dtype.str} {value.shape};".encode())
        hashed.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, str | bytes | int | float | np.generic | None):
        hashed.update(f"{type(value).__name__} {value!r};".encode())
    elif isinstance(value, tuple | list):
        hashed.update(f"{len(value)} items;".encode())
        for item in value:
            _feed(hashed, item)
    elif isinstance(value, Mapping):
        _feed(hashed, list(value.items()))
    elif isinstance(value, partial):
        _feed(hashed, (value.func, value.args, value.keywords))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        hashed.update(f"{type(value).__qualname__};".encode())
        for field in dataclasses.fields(value):
            _feed(hashed, getattr(value, field.name))
    else:
        hashed.update(f"{origin_of(value)};".encode())  # type: ignore[arg-type]  # of whatever else, its class


def _encoded(answer: Any) -> tuple[dict[str, Any], bytes]:
    if isinstance(answer, Answer):
        told = {"kind": "sum", "shape": list(answer.value.shape), "stddev": float(answer.stddev).hex()}
        return told, answer.value.astype("<f8").tobytes()
    if isinstance(answer, dict):
        return {"kind": "values"}, json.dumps(answer).encode()
    return {"kind": "choice"}, int(answer).to_bytes(8, "little", signed=True)


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _read(descriptor: int, length: int, start: int) -> bytes:
    parts = []
    while length:
        part = os.pread(descriptor, length, start)
        if not part:
            break
        parts.append(part)
        length, start = length - len(part), start + len(part)
    return b"".join(parts)
