"""A job: a release or an evaluation, made by a process of its own, so that it can be watched and stopped.

What a job is asked goes through its standard input, never on a command line that others on the machine may read; what
it says of itself comes back line by line.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from threea.errors import SettingError, stated

_PATIENCE = 10.0
"""Seconds between asking a job to stop and ending it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is: a stage, how much of it is done, and of how much; 0 if nobody knows."""

    stage: str = "starting"
    done: int = 0
    of: int = 0


@dataclass(slots=True)
class Job:
    """A job that was started, and what it has said of itself so far."""

    task: str
    """release or evaluate."""
    title: str
    subject: str
    """What no two jobs may work on at the same time."""
    back: str = ""
    """The page to go back to."""
    result: str = ""
    """The page that shows what it made."""
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    progress: Progress = Progress()
    receipt: str = ""
    notes: list[str] = field(default_factory=list)
    outcome: str = ""
    """done, failed, refused or stopped; empty while it runs."""
    message: str = ""
    stopping: bool = False
    _process: subprocess.Popen[str] | None = None

    def start(self, order: dict[str, Any]) -> None:
        """Start the process, hand it its order, and listen to it."""
        # -P: a file in the working folder must not be taken for a module.
        command = [sys.executable, "-P", "-m", "threea.studio.work"]
        self._process = subprocess.Popen(  # noqa: S603 - our own module, with nothing of a request in the command
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            encoding="utf-8",
        )
        threading.Thread(target=self._listen, args=(order,), daemon=True).start()

    def _listen(self, order: dict[str, Any]) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError), process.stdin as asked:
            json.dump({"task": self.task, **order}, asked)
        with process.stdout as said:
            for line in said:
                # A line that a killed process left half-written says nothing.
                with suppress(ValueError):
                    self._hear(json.loads(line))
        process.wait()
        if not self.outcome:
            # Killed, or ended before it could speak. Nothing is asked of the rows before the receipt.
            end = stated(charged=bool(self.receipt), written=False)
            self.message, self.outcome = end, "stopped" if self.stopping else "failed"

    def _hear(self, said: dict[str, Any]) -> None:
        if "stage" in said:
            self.progress = Progress(said["stage"], said["done"], said["of"])
        self.receipt = said.get("receipt", self.receipt)
        self.notes += said.get("notes", [])
        if "outcome" in said:
            self.message, self.outcome = said["message"], said["outcome"]

    def stop(self) -> None:
        """Ask the job to end; what it was charged stays charged."""
        process = self._process
        if process is None or self.outcome:
            return
        self.stopping = True
        process.send_signal(signal.SIGINT)
        patience = threading.Timer(_PATIENCE, process.kill)
        patience.daemon = True
        patience.start()

    def wait(self, seconds: float) -> None:
        """Wait for the end, and end it by force if it does not come."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()


class Jobs:
    """The jobs of one run of the studio; of those that run, no two work on the same subject."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(self, job: Job, order: dict[str, Any]) -> None:
        """Start a job.

        Raises:
            SettingError: Another one works on its subject.
        """
        with self._lock:
            if any(other.subject == job.subject and not other.outcome for other in self._jobs.values()):
                raise SettingError(f"another job is at work on {job.title}; wait for its end, or stop it")
            job.start(order)
            self._jobs[job.id] = job

    def __getitem__(self, name: str) -> Job:
        """Return a job by its id."""
        return self._jobs[name]

    def __contains__(self, name: str) -> bool:
        return name in self._jobs

    @property
    def running(self) -> list[Job]:
        """Those that have not ended."""
        return [job for job in self._jobs.values() if not job.outcome]

    def stop(self) -> None:
        """End all, on the way out."""
        for job in self.running:
            job.stop()
        for job in self.running:
            job.wait(_PATIENCE)
