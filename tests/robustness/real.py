"""Commands in processes and sessions of their own, as a shell starts them: nothing of them can hide or stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from warm import Attempt

PATIENCE_S = 10.0  # after a command has ended, before what is left of it counts as an orphan
SCRIPT = Path(sys.executable).with_name("tread-bench")


def program() -> list[str]:
    """What people start."""
    return [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "tread_bench"]


class Real:
    """One start of a command, in a session of its own; leaving it ends what is left.

    Args:
        streams: in place of the files that catch stdout and stderr.
        before: called in the new process before the command.
    """

    def __init__(
        self,
        *command: object,
        cwd: Path,
        environment: Mapping[str, str | None] | None = None,
        before: Callable[[], None] | None = None,
        **streams: Any,
    ) -> None:
        self.command, self.start = tuple(map(str, command)), time.monotonic()
        self.caught = {name: Path(f"{cwd}.{name}") for name in ("stdout", "stderr")}
        changed = os.environ | (environment or {})
        opened = {name: open(path, "wb") for name, path in self.caught.items()}  # noqa: SIM115  (closed below)
        try:
            self.process = subprocess.Popen(
                [*program(), *self.command],
                cwd=cwd,
                env={name: value for name, value in changed.items() if value is not None},
                preexec_fn=lambda: _begin(before),
                start_new_session=True,
                **({"stdin": subprocess.DEVNULL} | opened | streams),
            )
        finally:
            for file in opened.values():
                file.close()

    def __enter__(self) -> Real:
        return self

    def __exit__(self, *error: object) -> None:
        for pid in self.session():
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def interrupt(self) -> None:
        """Ctrl-C in the terminal that it was started from: all of its processes in the foreground hear it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)

    def end(self, limit_s: float) -> Attempt:
        """Wait for its end: how it ended."""
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        stdout, stderr = (path.read_text(encoding="utf-8", errors="replace") for path in self.caught.values())
        return Attempt(self.command, status, stdout, stderr, time.monotonic() - self.start)

    def session(self) -> list[int]:
        """All processes of it that are left."""
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and self._is_of_it(int(name))]

    def _is_of_it(self, pid: int) -> bool:
        try:
            state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            return False
        return int(session) == self.process.pid and state not in "ZX"

    def orphans(self) -> list[int]:
        """Processes that are still there after a while."""
        end = time.monotonic() + PATIENCE_S
        while (left := self.session()) and time.monotonic() < end:
            time.sleep(0.02)
        return left


def _begin(before: Callable[[], None] | None) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # what is started in the background may not hear them
        signal.signal(number, signal.SIG_DFL)
    if before:
        before()
