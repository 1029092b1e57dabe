"""How and where a suite is run, which part of it, and what shows it to its user: a call of `run`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tread_bench.core.errors import UserError
from tread_bench.runner.folder import RunFolder
from tread_bench.suite.plan import PlannedCell


@dataclass(frozen=True, slots=True)
class Shard:
    """The `number`th (from 1) of `of` equal parts of a run."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From "I/N". Raises UserError."""
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            rule = "must be I/N with 1 <= I <= N < 1,000,000, such as 2/4 for the second of four"
            raise UserError(f"--shard {text[:60]}: {rule}")
        return cls(int(match[1]), int(match[2]))

    def of_cells(self, cells: Sequence[PlannedCell], macs: Mapping[str, int]) -> list[PlannedCell]:
        """This part's cells. Those that read each other's weights stay together; the parts cost about the same.

        Longest first, to each part in turn; every runner gets the same result.

        Args:
            macs: what a cell costs, by row key.
        """
        # Groups of cells, none of which reads weights of another group; in the order of their first cells.
        group_of = {cell.id: [cell] for cell in cells}
        for cell in cells:
            for source in cell.sources.values():
                own = group_of[cell.id]
                if not source.run and (other := group_of[source.cell]) is not own:
                    own += other
                    group_of |= {member.id: own for member in other}
        groups = {id(group): group for group in group_of.values()}.values()

        ordered = sorted(groups, key=lambda group: -sum(macs[cell.row_key] for cell in group))
        return [cell for group in ordered[self.number - 1 :: self.of] for cell in group]


@dataclass(frozen=True, slots=True)
class Options:
    """No option changes a figure, except the device and numerics that are accepted.

    `device`: "auto" is the device that the run folder was started on and, in a new folder, CUDA where there is one.
    `rows`: names of the rows to run now, with those whose weights they read; none: all.
    `shard`: this runner trains and evaluates a part of the cells, beside runners of the other parts. Speed, which is
    measured alone, and the records that wait for it are left to a runner without a shard.
    """

    device: str = "cpu"
    rows: tuple[str, ...] = ()
    executor: str = "local"
    workers: int | None = None
    shard: Shard | None = None
    retry_failed: bool = False
    fresh: bool = False
    accept_other_numerics: bool = False
    track: Literal["tensorboard"] | None = None  # what gets the curves of cells while they train

    @property
    def runs_here(self) -> bool:
        """Whether cells run on this machine, and not where an executor places them."""
        return self.executor == "local"

    @property
    def begins_again(self) -> bool:
        """Whether the whole run starts afresh: what it was started with, and on, no longer counts."""
        return self.fresh and not self.rows


class Display(Protocol):
    """What shows a run to its user."""

    def note(self, text: str) -> None: ...
    def begin(self, phase: str, labels: Mapping[str, str], at_once: int | None) -> None: ...
    def started(self, key: str) -> None: ...
    def progressed(self, key: str, phase: str, done: int, of: int, loss: float | None) -> None: ...
    def ended(self, key: str, failure: str = "") -> None: ...
    def end(self) -> None: ...


def refuse(message: str) -> None:
    """Raise UserError: nobody was asked about what would be removed."""
    raise UserError(f"{message}\nnothing was changed: nobody was asked")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of `run`: the suite as it was read, where and how it is run, and who is told.

    `agree` gets the message about what `options.fresh` removes, and raises UserError unless the user agrees.
    """

    source: str
    folder: RunFolder
    options: Options
    display: Display
    agree: Callable[[str], None] = lambda message: None
