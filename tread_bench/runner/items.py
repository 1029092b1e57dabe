"""What is to be done for each cell of a run, by what its folder has. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from tread_bench.core.stored.records import Record
from tread_bench.runner.folder import Kept, RunFolder
from tread_bench.runner.options import Options
from tread_bench.suite.plan import Plan, PlannedCell


class Todo(Enum):
    """What is still to be done for a cell."""

    KEEP = auto()  # nothing
    FINISH = auto()  # it is trained: its record is written, with speed and memory of its row
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

    For a runner of a part, what training left counts as a record, since it measures no speed.

    Raises:
        StoreError: documents of the cells are damaged; it names every one.
    """
    seeds = [*plan.suite.seeds, *(plan.suite.tune.seed_numbers if plan.suite.tune else ())]
    ordered = sorted(cells, key=lambda cell: seeds.index(cell.paired_seed))
    folder.refuse_damaged({cell.id: cell.row_key for cell in ordered})
    is_part = options.shard is not None
    wants_speed = plan.suite.timing.pairs > 0 and not is_part
    items = []
    for cell in ordered:
        outcome, record = folder.outcome(cell.id), folder.record(cell.id)
        state = ""
        if record is not None:
            state = "finished"
        elif outcome is not None:
            state = "trained"
        elif any(folder.cell(cell.id).glob("checkpoints/step-*")):
            state = "begun"

        kept = _kept(cell, record, outcome, folder, options)
        has_no_speed = record is not None and record.status == "done" and record.timing is None
        is_missing = record is None or (has_no_speed and wants_speed and cell.is_timed)
        todo = Todo.KEEP
        if kept is not None:
            todo = Todo.FINISH if kept is Kept.TRAINING else Todo.TRAIN
        elif is_missing and outcome is None:
            todo = Todo.TRAIN
        elif is_missing and not is_part:
            todo = Todo.FINISH
        items.append(WorkItem(cell, state, todo, kept))
    return items


def _kept(
    cell: PlannedCell, record: Record | None, outcome: Record | None, folder: RunFolder, options: Options
) -> Kept | None:
    """What a cell keeps that the user wants again; None where it is not wanted again."""
    if options.fresh:
        return Kept.NOTHING
    latest = record or outcome
    if not options.retry_failed or latest is None or latest.status != "failed":
        return None
    if outcome is not None and outcome.status == "done":
        return Kept.TRAINING
    # Where training diverged, it would do so again from a checkpoint.
    return Kept.CHECKPOINTS if folder.has_checkpoints(cell.id) and not latest.has_diverged else Kept.NOTHING
