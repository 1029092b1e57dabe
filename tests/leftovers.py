"""Ends processes that tests have started; `python leftovers.py PID MARK` does so once the process PID has ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

MARK = "TREAD_BENCH_TESTS"  # environment variable of all that a process of tests starts


def watch_this_process() -> None:
    """Mark what this process starts, and have it ended once this process has ended, by `os._exit` or a kill as well."""
    os.environ[MARK] = f"{os.getpid()} {os.urandom(8).hex()}"
    if sys.platform == "linux":
        command = [sys.executable, "-IS", __file__, str(os.getpid()), os.environ[MARK]]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        watcher = subprocess.Popen(command, start_new_session=True, **quiet)
        watcher.returncode = 0  # it outlives this process


def end_started(**variables: str) -> None:
    """Kill all processes that were started with these environment variables, and what these have started meanwhile."""
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    while pids := [pid for pid in _others() if wanted <= _environment(pid)]:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _others() -> list[int]:
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if pid != os.getpid()]


def _environment(pid: int) -> set[bytes]:
    """As it was when the process started; empty for one that has ended, and for one of another user."""
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


if __name__ == "__main__":
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(int(sys.argv[1]))], [], [])
    end_started(**{MARK: sys.argv[2]})
