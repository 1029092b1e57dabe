"""The machines that share the processes of one task, and which of them this one is. No torch."""

from __future__ import annotations

import os
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Self

from tread_bench.core.stored.files import write_atomically
from tread_bench.runner.executors.tasks import LostError

_VARIABLE = "TREAD_BENCH_NODES"


@dataclass(frozen=True, slots=True)
class Nodes:
    """This machine's number among `count`; the first one has the address `host`, and says in the file `meeting`, which
    all of them see, at which port it listens.

    By default a task has one machine.
    """

    number: int = 0
    count: int = 1
    host: str = "127.0.0.1"
    meeting: str = ""

    @classmethod
    def here(cls) -> Self:
        """Return what was announced to this process or to the one that started it."""
        if _VARIABLE not in os.environ:
            return cls()
        number, count, host, meeting = os.environ[_VARIABLE].split(maxsplit=3)
        return cls(int(number), int(count), host, meeting)

    def announce(self) -> None:
        """Say so to this process and to those that it starts."""
        os.environ[_VARIABLE] = " ".join(map(str, astuple(self)))

    @property
    def is_first(self) -> bool:
        """Whether it is the machine whose process evaluates and writes."""
        return self.number == 0

    def tell_port(self, port: int) -> None:
        """Say to the other machines at which port the first one listens."""
        if self.count > 1:
            write_atomically(Path(self.meeting), str(port))

    def told_port(self, patience_s: float) -> int:
        """Return the port of the first machine, once it has said so. Raises LostError where it does not."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            if os.path.exists(self.meeting):
                return int(Path(self.meeting).read_text())
            time.sleep(0.5)
        raise LostError(f"the first machine did not start within {patience_s:.0f} s")
