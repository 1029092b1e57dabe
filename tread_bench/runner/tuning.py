"""Which learning rate is chosen for each row, by the records of its tuning cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tread_bench.core.stored.records import Candidate, Record, Tuning
from tread_bench.runner.folder import RunFolder
from tread_bench.suite.plan import Plan, PlannedCell


def tunings(plan: Plan, folder: RunFolder) -> dict[str, Tuning]:
    """Return the candidates of each row, with what their cells have left so far.

    Raises:
        UserError: a record cannot be read.
    """
    tune = plan.suite.tune
    if tune is None:
        return {}
    left = {cell.id: folder.record(cell.id) for cell in plan.tuning_cells(plan.tuning)}
    found = {}
    for row, candidates in plan.tuning.items():
        found[row] = Tuning(
            candidates=[_candidate(rate, cells, left) for rate, cells in candidates.items()],
            seeds=list(tune.seed_numbers),
            share=tune.share,
            shortest=plan.tuned_at(row),
            check=[_candidate(rate, cells, left) for rate, cells in plan.checks.get(row, {}).items()],
        )
    return found


def choices(tuned: Mapping[str, Tuning]) -> dict[str, float]:
    """Return the learning rate that is chosen, by row; none of rows whose candidates have not all ended."""
    found = {}
    for row, tuning in tuned.items():
        if tuning.best is not None:
            found[row] = tuning.best.value
    return found


def restate(cells: Iterable[PlannedCell], tuned: Mapping[str, Tuning], folder: RunFolder) -> None:
    """Write into the records of a study's cells how their settings were chosen, where that has changed.

    More candidates may have been tried since, and the same one may be the best; or the suite gave it at first.
    """
    for cell in cells:
        record = folder.record(cell.id)
        if record is not None and record.tuning != tuned.get(cell.row):
            folder.write_record(record.model_copy(update={"tuning": tuned.get(cell.row)}))


def _candidate(rate: float, cells: Sequence[PlannedCell], left: Mapping[str, Record | None]) -> Candidate:
    """A learning rate with what its cells have left."""
    ended = [record for cell in cells if (record := left[cell.id]) is not None]
    ends = [record.last for record in ended if record.status == "done" and record.last]
    diverged = sum(record.has_diverged for record in ended)
    return Candidate(
        learning_rate=rate,
        cells=[cell.id for cell in cells],
        validation_losses=[end.validation_loss for end in ends],
        fids=[end.fid for end in ends if end.fid is not None],
        diverged=diverged,
        failed=len(ended) - len(ends) - diverged,
    )
