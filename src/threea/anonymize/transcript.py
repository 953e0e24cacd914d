"""A release's transcript: its noisy answers, kept beside the ledger until the release is written.

An interrupted release goes on with it: the same questions get the same answers, and what was not answered is asked
under the same entry of the ledger. The ledger decides by its own file alone; without the transcript it only forgets
the answers, never the charge. Proof: docs/proofs/resuming.md.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import threea
from threea.anonymize.answer_log import AnswerLog, Recorded, digest_of, lock
from threea.anonymize.plan import Charge, Plan
from threea.anonymize.selection import QualityScores
from threea.anonymize.unfinished import (
    ANSWERS,
    MODEL,
    OUT,
    RELEASE,
    REQUEST,
    Waiting,
    home_of,
    loaded,
    removed,
    sweep,
    sync,
    waiting,
    write_synced,
)
from threea.errors import BudgetRefused, SettingError
from threea.ledger import Ledger


class Transcript:
    """The answers of one release, on disk before anyone has them.

    Guarantees:
        - It holds noisy answers, what is public of their questions, and what the ledger holds as well: nothing else
          of the rows.
        - It answers a question only as that question was answered; one that differs is refused.
        - It never tells the ledger anything: what is charged is the ledger's to say.

    Args:
        ledger: The ledger's file.
        request: What is asked for, option by option, as text; `dataset` is among it.

    Attributes:
        seed: Of sampling, for a release that was given none.
        key: Decides which of a person's rows count.
        release: Its id in the ledger, once it is reserved.
    """

    def __init__(self, ledger: str | os.PathLike[str], request: Mapping[str, str]) -> None:
        self._home = home_of(ledger)
        self._folder = self._home / secrets.token_hex(8)
        self.request, self.seed, self.key = request, secrets.randbits(62), secrets.token_bytes(32)
        self.release, self.resumed = "", False
        self._fingerprint, self._plan = "", ""
        self._log: AnswerLog | None = None
        self._answers: list[Recorded] = []
        self._next = 0
        self._wanted, self._kept, self._lock = True, False, threading.Lock()
        self._scores: tuple[object, str] = None, ""

    @classmethod
    def found(cls, ledger: str | os.PathLike[str], request: Mapping[str, str]) -> Transcript:
        """Return the transcript of the unfinished release that was asked for in these words.

        Raises:
            SettingError: There is none, or it cannot be gone on with.
        """
        transcript = cls(ledger, request)
        if transcript._home.is_dir():
            with transcript._alone():
                sweep(transcript._home)
            with suppress(OSError):
                transcript._home.rmdir()
        others = waiting(ledger, request["dataset"], reserved=False)
        same = [other for other in others if other.request == request]
        if not same:
            raise _nothing(ledger, request, others)
        transcript._folder, transcript.resumed = same[0].folder, True
        transcript._read()
        return transcript

    def _read(self) -> None:
        told = loaded(self._folder / REQUEST)
        if told["threea"] != threea.__version__:
            raise self.refusal(f"was begun by threea {told['threea']}, this is {threea.__version__}; use that version")
        self.seed, self.key = told["seed"], bytes.fromhex(told["key"])
        self._fingerprint, self._plan = told["rows"], told["plan"]
        self.release = loaded(self._folder / RELEASE).get("release", "")
        try:
            self._log = AnswerLog(self._folder / ANSWERS)
            self._answers, self._kept = self._log.read(), True
        except BlockingIOError:
            raise self.refusal("is being made by another process; wait for it") from None
        except OSError as error:
            raise self.refusal(f"cannot be read: {error.strerror}; check {self._folder}") from None
        if self._log.inode != told["inode"]:
            raise self.refusal("is a copy, which may lack answers that somebody has; release anew, for another charge")

    @property
    def waits(self) -> bool:
        """Whether an interrupted release can be resumed from it."""
        return self._kept

    @property
    def known(self) -> int:
        """How many answers an interrupted run has left."""
        return len(self._answers)

    @property
    def model(self) -> Path | None:
        """The finished model, if all is answered."""
        file = self._folder / MODEL
        return file if self.waits and file.exists() else None

    def rows_are(self, fingerprint: str) -> None:
        """Take the rows' fingerprint under the ledger's key, or compare it.

        Raises:
            SettingError: These are other rows than were asked before.
        """
        if self.resumed and fingerprint != self._fingerprint:
            raise self.refusal("was asked of other rows; give the table as it was, or leave --resume out")
        self._fingerprint = fingerprint

    def begin(self, plan: Plan, ledger: Ledger, reserve: Callable[[str], str]) -> str | None:
        """Have the plan reserved, unless it was before, and begin to keep its answers; return the release's id.

        Returns:
            None if no answers are to be kept.

        Raises:
            SettingError: The plan is not the one that was begun, or nothing can be kept there; nothing is charged.
        """
        if not self._wanted:
            return None
        if self.resumed and self._plan != digest_of((plan.budget, plan.lines)):
            raise self.refusal("was planned otherwise; give the same options, or release anew, for another charge")
        if not self.release:
            with self._alone():
                sweep(self._home)
                if not self._kept:
                    self._made(plan)
            # Its name in the ledger is its folder's, so a run that is killed right after the plan is reserved is known.
            name = self._folder.name
            try:
                if all(row.id != name for row in ledger.releases(self.request["dataset"])):
                    reserve(name)
            except BudgetRefused:
                self.forget()
                raise
            self.release = name
            self._write(RELEASE, {"release": name})
        return self.release

    def _made(self, plan: Plan) -> None:
        """Make the folder; it counts from the moment that its request is there."""
        with self._keeping():
            self._folder.mkdir(mode=0o700)
            self._log, self._kept = AnswerLog(self._folder / ANSWERS), True
        self._plan = digest_of((plan.budget, plan.lines))
        told = {
            "threea": threea.__version__,
            "request": dict(self.request),
            "begun": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed": self.seed,
            "key": self.key.hex(),
            "rows": self._fingerprint,
            "plan": self._plan,
            "inode": self._log.inode,
        }
        self._write(REQUEST, told)
        with self._keeping():
            sync(self._home)
            sync(self._home.parent)

    def owed(self, ledger: Ledger) -> tuple[Counter[str], Counter[str]]:
        """Return how often each line was charged, and how many of these charges nobody had an answer for.

        Raises:
            SettingError: The ledger says otherwise than the answers: one of the two is an older copy.
        """
        known = any(row.id == self.release for row in ledger.releases(self.request["dataset"]))
        charges = Counter((row.line, row.times) for row in ledger.charges(self.release)) if known else Counter()
        answered = Counter((answer.line, answer.units) for answer in self._answers)
        left = charges - answered
        # A question is asked when the one before has its answer on disk: a run leaves one without at most.
        if not known or not answered <= charges or left.total() > 1:
            raise self.refusal("does not go with its ledger, one of which is an older copy; restore the newer one")
        charged: Counter[str] = Counter()
        for (line, units), times in charges.items():
            charged[line] += units * times
        return charged, Counter(dict(left.keys()))

    def recall(self, charge: Charge, question: object) -> Any:
        """Return the answer that a question got before it was interrupted; None if it got none.

        Raises:
            SettingError: Another question was answered at this point.
        """
        with self._lock:
            if self._next == len(self._answers):
                return None
            answer = self._answers[self._next]
            if (answer.line, answer.units, answer.question) != (
                charge.name,
                charge.units,
                self._digest(charge, question),
            ):
                what = f"asks {charge.name} otherwise than before ({self._next} answers went as they did)"
                raise self.refusal(f"{what}; resume it on the machine that began it, or release anew")
            self._next += 1
            return answer.answer(question)

    def keep(self, charge: Charge, question: object, answer: object, *, sized: bool = True) -> None:
        """Write an answer down; it is on disk when this returns.

        Args:
            charge: What paid for it.
            question: What was asked.
            answer: The noisy answer.
            sized: Whether its bytes are as many whatever the noise was.

        Raises:
            SettingError: It could not be written; nobody has it.
        """
        with self._lock:
            if self._log is None:
                return
            try:
                self._log.append(charge.name, charge.units, self._digest(charge, question), answer)
            except OSError as error:
                if not sized:
                    # That it did not fit may tell of it, so it must not be asked for again.
                    self.forget()
                raise self._unkept(error) from None

    def _digest(self, charge: Charge, question: object) -> str:
        parts = question if isinstance(question, tuple) else (question,)
        return digest_of((charge.event, *map(self._digested, parts)))

    def _digested(self, part: object) -> object:
        if not isinstance(part, QualityScores):
            return part
        # Among the same candidates a recipe chooses many times, and they may be large.
        if self._scores[0] is not part:
            self._scores = part, digest_of(part)
        return self._scores[1]

    def finish(self, model: bytes | None) -> None:
        """Keep the finished model, from which all files can be written; None if it cannot be."""
        if self.waits and model is not None:
            with self._keeping():
                write_synced(self._folder / MODEL, model)

    def destined(self, out: Path, model: Path) -> None:
        """Note where the files are about to appear, and by what they are known."""
        if self.waits and model.exists():
            self._write(OUT, {"out": str(out), "model": sha256(model.read_bytes()).hexdigest()})

    def forget(self) -> None:
        """Remove it: the release is written, or cannot be resumed. The ledger forgets nothing."""
        self._wanted = False
        if self._kept:
            self._kept = False
            removed(self._folder)
        self.close()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let go of it if this ends in an error."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of it, and leave it for whoever resumes it."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def refusal(self, what: str) -> SettingError:
        """Make an error that names the unfinished release."""
        return SettingError(f"the unfinished release of dataset {self.request['dataset']!r} {what}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only process that begins or resumes a release beside this ledger."""
        while True:
            with self._keeping():
                self._home.mkdir(mode=0o700, exist_ok=True)
                handle = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY)
            try:
                lock(handle, fcntl.LOCK_EX)
                # Whoever had it before may have removed the folder on letting go.
                if self._home.is_dir() and os.path.samestat(os.fstat(handle), os.stat(self._home)):
                    yield
                    return
            finally:
                os.close(handle)

    def _write(self, name: str, told: Mapping[str, Any]) -> None:
        with self._keeping():
            write_synced(self._folder / name, json.dumps(told).encode())

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._unkept(error) from None

    def _unkept(self, error: OSError) -> SettingError:
        reason, where = error.strerror or type(error).__name__, self._home
        return SettingError(f"answers cannot be kept in {where}: {reason}; make room there, or make it writable")


def _nothing(ledger: object, request: Mapping[str, str], others: list[Waiting]) -> SettingError:
    name = request["dataset"]
    if not others:
        return SettingError(f"resume: no unfinished release of dataset {name!r} waits beside {ledger}; leave it out")
    other = others[0].request
    options = [option for option in {**other, **request} if other.get(option) != request.get(option)]
    return SettingError(
        f"resume: the unfinished release of dataset {name!r} was begun with another {', '.join(options)};"
        f" it was {', '.join(f'{option} {other.get(option)}' for option in options)}; say the same again"
    )
