"""What is to be done for each cell of a run, and which learning rates are chosen, by what its folder has. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tread_bench.core.stored.records import Candidate, Record, Tuning
from tread_bench.runner.folder import Kept, RunFolder
from tread_bench.runner.options import Options
from tread_bench.suite.plan import Plan, PlannedCell


class Todo(Enum):
    """What is still to be done for a cell."""

    KEEP = auto()  # nothing
    FINISH = auto()  # it is trained: its record gets speed and memory of its row
    TRAIN = auto()  # or evaluate what others train, or count its costs; then finish


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A cell, what the run folder has of it (`state`: finished, trained, begun, or nothing), and what is to be done.

    `kept`: what stays of a cell that is forgotten first, since the user wants it again; None: it is not forgotten.
    """

    cell: PlannedCell
    state: str
    todo: Todo
    kept: Kept | None = None


def work_items(cells: Iterable[PlannedCell], plan: Plan, folder: RunFolder, options: Options) -> list[WorkItem]:
    """Return what is to be done for some cells of a plan, seed by seed, so that pairs come early.

    A runner of a part measures no speed: for it, a trained cell is finished.

    Raises:
        StoreError: records of the cells are damaged; it names every one.
    """
    seeds = [*plan.suite.seeds, *(plan.suite.tune.seed_numbers if plan.suite.tune else ())]
    ordered = sorted(cells, key=lambda cell: seeds.index(cell.paired_seed))
    records = {record.cell: record for record in folder.records({cell.id: cell.reference for cell in ordered})}
    items = []
    for cell in ordered:
        # Its state, and what would be done.
        record, state, todo = records.get(cell.id), "finished", Todo.KEEP
        if record is None:
            state, todo = "", Todo.TRAIN
            if any(folder.cell(cell.id).glob("checkpoints/step-*")):
                state = "begun"
        elif record.lacks_speed and plan.suite.timing.pairs:
            state = "trained"
            if options.shard is None:
                todo = Todo.FINISH

        # What it keeps where the user wants it again.
        kept = None
        if options.fresh:
            kept, todo = Kept.NOTHING, Todo.TRAIN
        elif options.retry_failed and record and record.is_trained and record.status == "failed":
            kept, todo = Kept.TRAINING, Todo.FINISH  # its steps could not be timed
        elif options.retry_failed and record and record.status == "failed":
            # Where training diverged, it would do so again from a checkpoint.
            resumes = folder.has_checkpoints(cell.id) and not record.has_diverged
            kept, todo = Kept.CHECKPOINTS if resumes else Kept.NOTHING, Todo.TRAIN
        items.append(WorkItem(cell, state, todo, kept))
    return items


# Which learning rate is chosen for each row, by the records of its tuning cells


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


def chosen_rates(tuned: Mapping[str, Tuning]) -> dict[str, float]:
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
