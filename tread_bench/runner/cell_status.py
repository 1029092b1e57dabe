"""The state of one cell of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tread_bench.runner.heartbeat import Progress

State = Literal["running", "lost", "waiting", "trained", "done", "failed", "skipped", "unreadable"]
STATES: tuple[State, ...] = ("running", "lost", "waiting", "trained", "done", "failed", "skipped", "unreadable")


@dataclass(frozen=True, slots=True)
class CellStatus:
    """One cell: `lost` was interrupted and will resume, `trained` waits for the speed and memory of its row."""

    cell: str
    row: str
    seed: int | None
    state: State
    reason: str = ""  # of a failure or a loss
    attempts: int = 0  # that were started
    progress: Progress | None = None  # of the latest attempt, unless the cell has ended
    silent_s: float | None = None  # of a running cell: since its last report
    seconds_left: float | None = None  # of a running cell; None: unknown
    images_per_s: float | None = None  # of a running cell's training, without evaluations; None: unknown
    mfu: float | None = None  # its MACs per second, over those of a large product on as many devices; None: unknown

    @property
    def row_key(self) -> str:
        return self.cell.rpartition("-")[2]

    @property
    def is_trained(self) -> bool:
        """Whether it has a record, even if a failure."""
        return self.state not in ("running", "lost", "waiting")
