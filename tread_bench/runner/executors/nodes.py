"""The machines that share the processes of one task, and which of them this one is. No torch."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from typing import Self

_VARIABLE = "TREAD_BENCH_NODES"


@dataclass(frozen=True, slots=True)
class Nodes:
    """This machine's number among `count`; the first one has the address `host`, where `port` and the next are free.

    By default a task has one machine, and a port is found when it is needed.
    """

    number: int = 0
    count: int = 1
    host: str = "localhost"
    port: int = 0

    @classmethod
    def here(cls) -> Self:
        """Return what was announced to this process or to the one that started it."""
        if _VARIABLE not in os.environ:
            return cls()
        number, count, host, port = os.environ[_VARIABLE].split()
        return cls(int(number), int(count), host, int(port))

    def announce(self) -> None:
        """Say so to this process and to those that it starts."""
        os.environ[_VARIABLE] = " ".join(map(str, astuple(self)))

    @property
    def is_first(self) -> bool:
        """Whether it is the machine whose process evaluates and writes."""
        return self.number == 0

    @property
    def endpoint(self) -> str:
        """Where the launchers meet."""
        return f"{self.host}:{self.port}"
