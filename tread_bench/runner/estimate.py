"""How long a run may still take: the remaining work, at the pace that its cells have shown. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tread_bench.core.numbers.cell_costs import Work
from tread_bench.runner.cell_status import CellStatus
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.heartbeat import read_progress

ENDED = ("trained", "done")


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
        outcome = folder.cell(cell.cell) / "outcome.json"
        progress = read_progress(folder, cell.cell) if cell.attempts <= 1 and outcome.exists() else None
        seconds = outcome.stat().st_mtime - progress.began if progress else 0.0
        return _Spent(work.total, seconds, is_evaluated=True) if work.total and seconds > 0 else _Spent()
    progress = cell.progress
    if progress is None or progress.done <= progress.first or progress.updated <= progress.began:
        return _Spent()
    macs = work.until(progress.done) - work.until(progress.first)
    is_evaluated = any(progress.first < at < progress.done for at in work.at)
    return _Spent(macs, progress.updated - progress.began, is_evaluated)
