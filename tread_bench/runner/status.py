"""The state of a run, from its folder alone: what is done, what runs where, what was lost, what is left. No torch."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from tread_bench.core.errors import UserError
from tread_bench.core.numbers.cell_costs import Work, expected_work
from tread_bench.core.stored.cache import is_locked
from tread_bench.core.stored.documents import RunPlan
from tread_bench.runner.folder import LOST_WITH_RUNNER, RunFolder
from tread_bench.runner.heartbeat import Progress, read_progress

State = Literal["running", "lost", "waiting", "trained", "done", "failed", "skipped", "unreadable"]
STATES: tuple[State, ...] = ("running", "lost", "waiting", "trained", "done", "failed", "skipped", "unreadable")
ENDED = ("trained", "done")
HEARD_S = 600.0  # since the last report of a cell elsewhere, whose lock may not be visible here


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
        """Whether nothing is left to train: it has ended, even if by a failure, or cannot be read."""
        return self.state not in ("running", "lost", "waiting")


@dataclass(frozen=True, slots=True)
class Status:
    """A run: its cells in the order of its plan, and what is left of it."""

    suite: str | None  # None: a runner has just started, and has not said
    is_smoke: bool
    device: str | None
    is_held: bool | None  # whether a runner holds the folder; None: the file system cannot tell
    cells: tuple[CellStatus, ...] = ()
    rows_to_measure: int = 0  # whose speed and memory are requested
    rows_measured: int = 0
    seconds_left: float | None = None  # until the last cell is trained; None: unknown
    is_at_least: bool = False  # such times leave out what no cell has shown yet: how long starts and evaluations take

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
    # Each cell's state, from its files.
    is_held = is_locked(folder.root / ".lock")
    if is_held and not folder.plan_path.exists():  # by a runner that has just started
        return Status(suite=None, is_smoke=False, device=None, is_held=is_held)
    plan, now = folder.existing_plan(), time.time()
    looked = [_look(folder, cell_id, plan, now) for cell_id in plan.cells]

    # What is left to do, and how long that may take.
    works = _works(folder, looked)
    remaining = Remaining.of(folder, looked, works)
    to_measure = _to_measure(looked, works) if plan.timing.pairs else set()
    return Status(
        suite=plan.suite.name,
        is_smoke=plan.smoke,
        device=plan.numerics.device,
        is_held=is_held,
        cells=tuple(_running(cell, remaining, folder) if cell.state == "running" else cell for cell in looked),
        rows_to_measure=len(to_measure),
        rows_measured=sum(folder.timing_path(key).exists() for key in to_measure),
        seconds_left=remaining.of_all(looked),
        is_at_least=remaining.is_at_least,
    )


def _look(folder: RunFolder, cell_id: str, plan: RunPlan, now: float) -> CellStatus:
    """Return the state of a cell."""
    row, seed = plan.rows[cell_id]
    try:
        attempts = folder.attempts(cell_id)
        ended = _ended(folder, cell_id, (row, seed), plan.timing.pairs > 0, _changed_ns(folder.cell(cell_id)))
    except UserError as error:
        return CellStatus(cell_id, row, seed, "unreadable", str(error))
    if ended is not None:
        return replace(ended, attempts=ended.attempts or len(attempts))
    looked = CellStatus(cell_id, row, seed, "waiting", attempts=len(attempts))
    progress = read_progress(folder, cell_id)
    silent_s = max(0.0, now - progress.updated) if progress else 0.0
    is_heard_elsewhere = progress is not None and progress.host != platform.node() and silent_s < HEARD_S
    if folder.is_taken(cell_id) or is_heard_elsewhere:
        return replace(looked, state="running", progress=progress, silent_s=silent_s)
    if not attempts and not progress:
        return looked
    return replace(looked, state="lost", reason=(attempts or [LOST_WITH_RUNNER])[-1], progress=progress)


def _changed_ns(cell: Path) -> tuple[int | None, ...]:
    """When the documents of a cell were written; None for one that is not there."""
    times: list[int | None] = []
    for name in ("cell", "record", "outcome"):  # the last one: a record of an older version
        try:
            times.append(os.stat(f"{cell}/{name}.json").st_mtime_ns)
        except FileNotFoundError:
            times.append(None)
    return tuple(times)


@cache
def _ended(
    folder: RunFolder, cell_id: str, named: tuple[str, int], is_timed: bool, changed_ns: tuple[int | None, ...]
) -> CellStatus | None:
    """The state of a cell that has ended, kept while no file changes; None: it has not. Raises UserError."""
    record = folder.record(cell_id, folder.request(cell_id))
    if record is None:
        return None
    state: State = "trained" if is_timed and record.lacks_speed else record.status
    return CellStatus(cell_id, *named, state, record.reason, len(record.attempts))


def _works(folder: RunFolder, cells: Sequence[CellStatus]) -> dict[str, Work | None]:
    """What the cells of each row cost, by the row's key."""
    first = {cell.row_key: cell for cell in reversed(cells) if cell.state != "unreadable"}
    return {key: _work(folder, cell.cell, _changed_ns(folder.cell(cell.cell))) for key, cell in first.items()}


@cache
def _work(folder: RunFolder, cell_id: str, changed_ns: tuple[int | None, ...]) -> Work | None:
    """Kept while no file changes; None where it cannot be known, as where its backbone is not installed here.

    Raises UserError.
    """
    request = folder.request(cell_id)
    try:
        return expected_work(request.configuration) if request else None
    except ValueError:
        return None


def _running(cell: CellStatus, remaining: Remaining, folder: RunFolder) -> CellStatus:
    """The same with how long it still takes and how fast it trains, as far as that is known."""
    cell = replace(cell, seconds_left=remaining.of_cell(cell))
    work, rate = remaining.works.get(cell.row_key), cell.progress.rate if cell.progress else None
    if work is None or rate is None:
        return cell
    measured = folder.timing(cell.row_key)
    at_best = measured.timing.product_macs_per_s if measured else None
    devices = measured.conditions.processes if measured else 1
    mfu = rate * work.training_step / (at_best * devices) if at_best else None
    return replace(cell, images_per_s=rate * work.batch, mfu=mfu)


def _to_measure(cells: Sequence[CellStatus], works: Mapping[str, Work | None]) -> set[str]:
    """Keys of rows whose steps are timed, with a cell that did not fail."""
    left = {cell.row_key for cell in cells if cell.state not in ("failed", "skipped")}
    return {key for key in left if (work := works.get(key)) is None or work.is_timed}


@dataclass(frozen=True, slots=True)
class Remaining:
    """The work of each cell, and the MACs per second of one cell at a time.

    Per MAC an evaluation takes longer than a training step. So only cells that have been evaluated show a pace, unless
    there are none: then times are `is_at_least`.
    """

    works: Mapping[str, Work | None]  # by the row's key
    pace: float | None
    is_at_least: bool

    @classmethod
    def of(cls, folder: RunFolder, cells: Sequence[CellStatus], works: Mapping[str, Work | None]) -> Remaining:
        spent = [_spent(folder, cell, works.get(cell.row_key)) for cell in cells]
        evaluated = [one for one in spent if one.is_evaluated]
        counted = evaluated or spent
        macs, seconds = sum(one.macs for one in counted), sum(one.seconds for one in counted)
        return cls(works, macs / seconds if macs else None, not evaluated)

    def of_cell(self, cell: CellStatus) -> float | None:
        """Remaining seconds of a cell; None: unknown."""
        work, done = self.works.get(cell.row_key), cell.progress.done if cell.progress else 0
        if work is not None and not work.total:
            return 0.0
        if work is None or self.pace is None:
            return None
        return max(0.0, (work.total - work.until(done)) / self.pace - (cell.silent_s or 0))

    def of_all(self, cells: Sequence[CellStatus]) -> float | None:
        """Seconds until the last cell is trained, with as many at a time as run now; None: unknown."""
        left = {cell.cell: self.of_cell(cell) for cell in cells if not cell.is_trained}
        running = [left[cell.cell] for cell in cells if cell.state == "running"]
        known = [seconds for seconds in left.values() if seconds is not None]
        if len(known) < len(left) or (left and not running):
            return None
        return max([sum(known) / max(1, len(running)), *(seconds or 0.0 for seconds in running)])


@dataclass(frozen=True, slots=True)
class _Spent:
    macs: int = 0
    seconds: float = 0.0
    is_evaluated: bool = False  # whether an evaluation is among them


def _spent(folder: RunFolder, cell: CellStatus, work: Work | None) -> _Spent:
    """What was spent on a cell that was trained without interruption, or on what its latest attempt has reported."""
    if work is None:
        return _Spent()
    if cell.state in ENDED:
        progress = read_progress(folder, cell.cell) if cell.attempts <= 1 else None
        seconds = progress.updated - progress.began if progress else 0.0
        return _Spent(work.total, seconds, is_evaluated=True) if work.total and seconds > 0 else _Spent()
    progress = cell.progress
    if progress is None or progress.done <= progress.first or progress.updated <= progress.began:
        return _Spent()
    macs = work.until(progress.done) - work.until(progress.first)
    is_evaluated = any(progress.first < at < progress.done for at in work.at)
    return _Spent(macs, progress.updated - progress.began, is_evaluated)
