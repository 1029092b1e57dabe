"""How long a run may still take: the remaining work, at the pace that its cells have shown. No torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from tread_bench.core.config.suite import Cell
from tread_bench.core.numbers.cell_costs import Work, expected_work
from tread_bench.runner.cell_status import CellStatus
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.heartbeat import Progress, read_progress

ENDED = ("trained", "done")


@dataclass(frozen=True, slots=True)
class Remaining:
    """The work of each cell, and MACs per second of one cell at a time: from its row's cells, or else from all.

    Per MAC an evaluation takes longer than a training step. So only cells that have been evaluated show a pace, unless
    there are none: then times are `is_at_least`.
    """

    works: Mapping[str, Work | None]  # by the row's key
    by_row: Mapping[str, float]
    overall: float | None
    is_at_least: bool

    @classmethod
    def of(cls, folder: RunFolder, cells: Sequence[CellStatus], works: Mapping[str, Work | None]) -> Remaining:
        estimated = [(cell, work) for cell in cells if (work := works.get(cell.row_key))]
        shown = [(cell, work, spent) for cell, work in estimated if (spent := _spent(folder, cell, work))[0]]
        evaluated = [(cell, work, spent) for cell, work, spent in shown if _is_evaluated(cell, work)]
        by_row = defaultdict[str, list[tuple[int, float]]](list)
        for cell, _, spent in evaluated or shown:
            by_row[cell.row_key].append(spent)
        paces = {key: pace for key, some in by_row.items() if (pace := _pace(some))}
        return cls(works, paces, _pace(chain.from_iterable(by_row.values())), not evaluated)

    def of_cell(self, cell: CellStatus) -> float | None:
        """Remaining seconds of a cell; None: unknown."""
        work, done = self.works.get(cell.row_key), cell.progress.done if cell.progress else 0
        if work is not None and not work.total:
            return 0.0
        pace = self._pace_of(cell, work) if work else None
        if work is None or pace is None:
            return None
        return max(0.0, (work.total - work.until(done)) / pace - (cell.silent_s or 0))

    def _pace_of(self, cell: CellStatus, work: Work) -> float | None:
        """Its own pace, or else that of its row or of all cells."""
        progress, own = cell.progress, None
        if progress and (self.is_at_least or _is_evaluated(cell, work)):
            own = _pace([_advanced(progress, work, progress.first_at)])
        return own or self.by_row.get(cell.row_key, self.overall)

    def of_all(self, cells: Sequence[CellStatus]) -> float | None:
        """Seconds until the last cell is trained, with as many at a time as run now; None: unknown."""
        left = {cell.cell: self.of_cell(cell) for cell in cells if not cell.is_trained}
        running = [left[cell.cell] for cell in cells if cell.state == "running"]
        known = [seconds for seconds in left.values() if seconds is not None]
        if len(known) < len(left) or (left and not running):
            return None
        return max([sum(known) / max(1, len(running)), *(seconds or 0.0 for seconds in running)])


def _pace(spent: Iterable[tuple[int, float]]) -> float | None:
    """MACs per second of all that was spent, given as (MACs, seconds); None where nothing was."""
    macs, seconds = (sum(column) for column in zip(*spent, (0, 0.0), strict=True))
    return macs / seconds if macs else None


def _spent(folder: RunFolder, cell: CellStatus, work: Work) -> tuple[int, float]:
    """(MACs, seconds) of a cell trained without interruption, or of what its latest attempt has reported so far."""
    if cell.state not in ENDED:
        return _advanced(cell.progress, work, cell.progress.began) if cell.progress else (0, 0.0)
    progress = None if cell.attempts > 1 else read_progress(folder, cell.cell)
    if progress is None or not (outcome := folder.cell(cell.cell) / "outcome.json").exists():
        return 0, 0.0
    seconds = outcome.stat().st_mtime - progress.began
    return (work.total, seconds) if seconds > 0 else (0, 0.0)


def _is_evaluated(cell: CellStatus, work: Work) -> bool:
    """Whether its times include an evaluation."""
    progress = cell.progress
    within = progress is not None and any(progress.first < at < progress.done for at in work.at)
    return cell.state in ENDED or within


def _advanced(progress: Progress, work: Work, since: float) -> tuple[int, float]:
    """(MACs, seconds) of what an attempt has reported, its seconds from `since` on."""
    if progress.done <= progress.first or progress.updated <= since:
        return 0, 0.0
    return work.until(progress.done) - work.until(progress.first), progress.updated - since


@cache
def work_of(cell: Cell) -> Work | None:
    """Return what a cell costs; None where that cannot be known here, for example since its backbone is not
    installed.
    """
    try:
        return expected_work(cell)
    except ValueError:
        return None
