"""The state of a run, from its folder alone: what is done, what runs where, what was lost. No torch."""

from __future__ import annotations

import platform
import time
from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

from tread_bench.core.errors import UserError
from tread_bench.core.stored.cache import is_locked
from tread_bench.core.stored.documents import RunPlan
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.heartbeat import Progress, read_progress

State = Literal["running", "lost", "waiting", "trained", "done", "failed", "skipped", "unreadable"]
STATES: tuple[State, ...] = get_args(State)
LOST = "its process ended before it had a record; the cell's log may say why"
HEARD_S = 600.0  # since the last report of a cell elsewhere, whose lock may not be visible here


@dataclass(frozen=True, slots=True)
class CellStatus:
    """One cell: `lost` was interrupted and will resume, `trained` waits for the speed and memory of its row."""

    cell: str
    row: str
    seed: int | None
    state: State
    reason: str = ""  # of a failure or a loss
    progress: Progress | None = None  # of the latest attempt, unless the cell has ended
    silent_s: float | None = None  # of a running cell: since its last report

    @property
    def is_trained(self) -> bool:
        """Whether nothing is left to train: it has ended, even if by a failure, or cannot be read."""
        return self.state not in ("running", "lost", "waiting")


@dataclass(frozen=True, slots=True)
class Status:
    """A run: its cells in the order of its plan."""

    suite: str | None  # None: a runner has just started, and has not said
    is_smoke: bool
    device: str | None
    is_held: bool | None  # whether a runner holds the folder; None: the file system cannot tell
    cells: tuple[CellStatus, ...] = ()

    @property
    def counts(self) -> dict[State, int]:
        """The number of cells in each state that occurs."""
        counts = Counter(cell.state for cell in self.cells)
        return {state: counts[state] for state in STATES if counts[state]}

    @property
    def is_complete(self) -> bool:
        """Whether every cell has ended, with the speed of its row."""
        return bool(self.cells) and all(cell.state in ("done", "failed", "skipped") for cell in self.cells)


def status_of(folder: RunFolder) -> Status:
    """Read the state of a run folder, and change nothing there.

    Raises:
        StoreError: it is not a run folder, or its plan cannot be read.
    """
    is_held = is_locked(folder.root / ".lock")
    if is_held and not folder.plan_path.exists():  # by a runner that has just started
        return Status(suite=None, is_smoke=False, device=None, is_held=is_held)
    plan, now = folder.existing_plan(), time.time()
    return Status(
        suite=plan.suite.name,
        is_smoke=plan.smoke,
        device=plan.numerics.device,
        is_held=is_held,
        cells=tuple(_look(folder, cell_id, plan, now) for cell_id in plan.cells),
    )


def _look(folder: RunFolder, cell_id: str, plan: RunPlan, now: float) -> CellStatus:
    """Return the state of a cell."""
    row, seed = plan.rows[cell_id]
    try:
        folder.request(cell_id)  # which must be readable, too
        record = folder.record(cell_id)
    except UserError as error:
        return CellStatus(cell_id, row, seed, "unreadable", str(error))
    if record is not None:
        state: State = "trained" if plan.timing.pairs and record.lacks_speed else record.status
        return CellStatus(cell_id, row, seed, state, record.reason)
    progress = read_progress(folder, cell_id)
    silent_s = max(0.0, now - progress.updated) if progress else 0.0
    is_heard_elsewhere = progress is not None and progress.host != platform.node() and silent_s < HEARD_S
    if folder.is_taken(cell_id) or is_heard_elsewhere:
        return CellStatus(cell_id, row, seed, "running", progress=progress, silent_s=silent_s)
    if progress is None:
        return CellStatus(cell_id, row, seed, "waiting")
    return CellStatus(cell_id, row, seed, "lost", LOST, progress)
