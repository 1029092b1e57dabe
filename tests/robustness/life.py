"""A command in a session of its own, as a shell starts it: nothing of it can hide or stay."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

import psutil

from tests.command_line import command


class Life:
    """One start of a command; leaving it ends what is left."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(command(*arguments), start_new_session=True, stdout=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.everybody():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()

    def everybody(self) -> list[psutil.Process]:
        """All processes that are left of it."""
        found = [one for one in psutil.process_iter() if session_of(one.pid) == self.process.pid]
        return [one for one in found if not has_ended(one)]


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
