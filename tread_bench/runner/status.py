"""The state of a run, from its folder alone: what is done, what runs where, what was lost. No torch."""

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
from tread_bench.core.stored.locks import is_locked
from tread_bench.runner.cell_status import STATES, CellStatus, State
from tread_bench.runner.estimate import Remaining
from tread_bench.runner.folder import LOST_WITH_RUNNER, RunFolder
from tread_bench.runner.heartbeat import Progress, read_progress

HEARD_S = 600.0  # since the last report of a cell elsewhere, whose lock may not be visible here


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
        """Whether every cell has its record."""
        return bool(self.cells) and all(cell.has_record for cell in self.cells)


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
    looked = [_look(folder, cell_id, plan.rows[cell_id], now) for cell_id in plan.cells]

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


def _look(folder: RunFolder, cell_id: str, named: tuple[str, int], now: float) -> CellStatus:
    """Return the state of a cell, whose row and seed are `named`."""
    row, seed = named
    try:
        stored = _stored(folder, cell_id, _changed_ns(folder.cell(cell_id)))
        attempts = folder.attempts(cell_id)
    except UserError as error:
        return CellStatus(cell_id, row, seed, "unreadable", str(error))
    looked = CellStatus(cell_id, row, seed, "waiting", attempts=len(attempts))
    if stored.status is not None:
        state: State = "trained" if not stored.has_record and stored.status == "done" else stored.status
        started = len(stored.attempts or attempts)
        return replace(looked, state=state, reason=stored.reason, attempts=started, has_record=stored.has_record)
    progress = read_progress(folder, cell_id)
    silent_s = max(0.0, now - progress.updated) if progress else 0.0
    if folder.is_taken(cell_id) or _is_heard_elsewhere(progress, silent_s):
        return replace(looked, state="running", progress=progress, silent_s=silent_s)
    if not attempts and not progress:
        return looked
    return replace(looked, state="lost", reason=(attempts or [LOST_WITH_RUNNER])[-1], progress=progress)


def _is_heard_elsewhere(progress: Progress | None, silent_s: float) -> bool:
    return progress is not None and progress.host != platform.node() and silent_s < HEARD_S


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is needed here of a cell's documents."""

    status: Literal["done", "failed", "skipped"] | None = None  # None: it has neither record nor outcome
    reason: str = ""
    attempts: Sequence[str] = ()
    has_record: bool = False


def _changed_ns(cell: Path) -> tuple[int | None, ...]:
    """When the documents of a cell were written; None for one that is not there."""
    return tuple(_written_ns(f"{cell}/{name}.json") for name in ("cell", "record", "outcome"))


def _written_ns(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return None


@cache
def _stored(folder: RunFolder, cell_id: str, changed_ns: tuple[int | None, ...]) -> _Stored:
    """Kept while no file changes. Raises UserError."""
    request = folder.request(cell_id)
    record = folder.record(cell_id, request)
    ended = record or folder.outcome(cell_id, request)
    if ended is None:
        return _Stored()
    return _Stored(ended.status, ended.reason, ended.attempts, record is not None)


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
