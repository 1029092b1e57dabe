"""Speed and memory of each row, alone and one at a time, before any training; where rows are evaluated at equal time.

A row is evaluated at equal time when it has trained as long as the row that its budget names. No torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from tread_bench.core.config.suite import Cell
from tread_bench.core.stored.conditions import decisive, differences
from tread_bench.core.stored.documents import MeasuredMemory, MeasuredSpeed, RowTiming, TimingRequest
from tread_bench.core.stored.files import make_below, write_document
from tread_bench.core.stored.records import EqualTime, Record, TimingFigures
from tread_bench.runner.executors.tasks import Site
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Call
from tread_bench.suite.plan import Plan, PlannedCell


def complete(plan: Plan, ended: Iterable[tuple[PlannedCell, Record]], call: Call, site: Site) -> None:
    """Write speed and memory of their rows into the records of trained cells, with the timing's conditions where they
    differ; what was not measured yet, is now.
    """
    changes: dict[str, object]
    waiting = [(cell, record) for cell, record in ended if record.lacks_speed]
    timings = measure(plan, [cell for cell, _ in waiting], call, site)
    for cell, record in waiting:
        timing = timings[cell.row_key]
        if isinstance(timing, str):
            changes = {"status": "failed", "reason": timing, "reason_in_training": record.reason}
        else:
            changes = {"timing": timing.timing}
            if differences(record.conditions, timing.conditions):
                changes["conditions"] = record.conditions.model_copy(update={"timed_under": timing.conditions})
        call.folder.write_record(record.model_copy(update=changes))


def measure(plan: Plan, cells: Iterable[PlannedCell], call: Call, site: Site) -> dict[str, RowTiming | str]:
    """Return speed and memory of each row of the cells, by row key: as kept in the run folder, or measured on one cell.

    A text says why a row has neither.
    """
    # What is kept, if it is what would be measured now.
    examples = {cell.row_key: cell for cell in cells if cell.is_timed}
    timings: dict[str, RowTiming | str] = {}
    requested = TimingRequest(timing=plan.suite.timing, conditions=decisive(call.folder.existing_plan().conditions))
    for key in examples:
        kept = call.folder.timing(key)
        if kept is not None and kept.asked == requested:
            timings[key] = kept

    # The others, one at a time.
    missing = {key: cell.row for key, cell in examples.items() if key not in timings}
    if missing:
        call.display.begin("measuring speed and memory, one row at a time", missing, 1)
    for key in missing:
        timings[key] = _time_row(examples[key], requested, call, site)
    return timings


def _time_row(example: PlannedCell, requested: TimingRequest, call: Call, site: Site) -> RowTiming | str:
    """What the seeds of a row share, measured on one of its cells, each in a process of its own, and kept."""
    folder, display = call.folder, call.display
    key, ends = example.row_key, []
    for function in ("tread_bench.cell.speed:measure_speed", "tread_bench.cell.speed:measure_memory"):
        display.started(key)
        ended = site.end_of(site.task_of_ranks(key, function, folder, example.id, reports=False))
        if ended.failure:
            display.ended(key, ended.failure)
            return f"measuring speed and memory: {ended.failure}"
        ends.append(ended.value)
    display.ended(key)
    speed: MeasuredSpeed = ends[0]
    memory: MeasuredMemory = ends[1]
    if other := differences(speed.conditions, memory.conditions):
        return f"speed and memory were measured on two kinds of machines: {'; '.join(other)}"

    timing = speed.timing.model_copy(update=memory.model_dump(exclude={"conditions"}))
    measured = RowTiming(row_key=key, asked=requested, timing=timing, conditions=speed.conditions)
    make_below(folder.root, folder.timing_path(key).parent)
    write_document(folder.timing_path(key), measured)
    return measured


def is_compared_at_equal_time(cell: Cell) -> bool:
    """Return whether a cell has a budget, an FID, and steps of timed kinds alone."""
    return cell.trains and cell.generates and cell.training.budget is not None and _is_timed_whole(cell)


def _is_timed_whole(cell: Cell) -> bool:
    """Whether every step of a cell is a timed one: routed, or plainly dense."""
    if cell.schedule.warmup:
        return False
    return cell.schedule.until == 1 or not (cell.auxiliary or cell.method.family.has_modules)


def with_references(cells: Sequence[PlannedCell], plan: Plan) -> list[PlannedCell]:
    """Return the cells, and one of each row that their budgets name."""
    budgets = [cell.cell.training.budget for cell in cells if is_compared_at_equal_time(cell.cell)]
    named = dict.fromkeys(budget.macs_of for budget in budgets if budget)
    there = {cell.row for cell in cells}
    return [*cells, *(plan.rows[name][0] for name in named if name not in there and name in plan.rows)]


def plan_equal_times(
    plan: Plan, untrained: Sequence[PlannedCell], timings: Mapping[str, RowTiming | str], folder: RunFolder
) -> None:
    """Write to plan.json at which iteration each untrained cell that is compared at equal time is evaluated there.

    All seeds of a row have the same. A row of which a cell began without one stays without.

    Args:
        timings: what `measure` found for their rows and for those that their budgets name.
    """
    figures = {key: row.timing for key, row in timings.items() if not isinstance(row, str)}
    written = folder.existing_plan()
    found = dict(written.equal_time)
    new = {cell.id for cell in untrained}
    for cells in plan.rows.values():
        known = next((found[cell.id] for cell in cells if cell.id in found), None)
        if known is None and all(cell.id in new and not folder.has_checkpoints(cell.id) for cell in cells):
            known = equal_time(cells[0], plan, figures)
        if known is not None:
            found |= {cell.id: known for cell in cells if cell.id in new}
    write_document(folder.plan_path, written.model_copy(update={"equal_time": found}))


def equal_time(row: PlannedCell, plan: Plan, timings: Mapping[str, TimingFigures]) -> EqualTime | None:
    """Return at which iteration a row has trained as long as the row that its budget names trains in all.

    A step takes its time in pairs with a dense one, and the mean wait for a batch; under a schedule, the mean of its
    routed and dense steps counts. None: the row has no such iteration, or one of the two was not timed.
    """
    budget = row.cell.training.budget
    if budget is None or not is_compared_at_equal_time(row.cell) or budget.macs_of not in plan.rows:
        return None
    reference = plan.rows[budget.macs_of][0]
    own, other = timings.get(row.row_key), timings.get(reference.row_key)
    if own is None or other is None or not _is_timed_whole(reference.cell):
        return None

    # In pairs, the dense step of the one is that of the other.
    is_dense = reference.cell.is_plainly_dense
    is_own = reference.architecture_key == row.architecture_key and not own.reference_backbone
    is_timed_with = is_own or own.reference_backbone == reference.cell.backbone.label
    is_paired = is_dense and is_timed_with and own.batch == other.batch
    dense_ms = median((own if is_paired else other).reference_step_times_ms)
    speedup_of_other = 1.0 if is_dense else other.speedup
    whole_ms = reference.cell.training.iterations * _mean_step_ms(reference.cell, dense_ms, speedup_of_other, other)

    def iteration(speedup: float) -> float:
        return whole_ms / _mean_step_ms(row.cell, median(own.reference_step_times_ms), speedup, own)

    ends = (iteration(own.speedup_low), iteration(own.speedup_high)) if is_paired else (None, None)
    return EqualTime(iteration=max(1, round(iteration(own.speedup))), low=ends[0], high=ends[1])


def _mean_step_ms(cell: Cell, dense_ms: float, speedup: float, timing: TimingFigures) -> float:
    """Mean time of a cell's steps, with the mean wait for a batch in a step of the training loop."""
    routed = cell.schedule.until
    wait_ms = (timing.loop_time_ms or 0.0) * (timing.data_wait_share or 0.0)
    return routed * dense_ms / speedup + (1 - routed) * dense_ms + wait_ms
