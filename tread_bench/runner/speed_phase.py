"""Speed and memory of each row, alone and one at a time, before any training; later, in its records. No torch."""

from __future__ import annotations

from collections.abc import Iterable

from tread_bench.core.stored.conditions import decisive, differences
from tread_bench.core.stored.documents import MeasuredMemory, MeasuredSpeed, RowTiming, TimingRequest
from tread_bench.core.stored.outputs import make_below
from tread_bench.core.stored.records import Record, TimingFigures
from tread_bench.runner.display import Display
from tread_bench.runner.executors.site import Site
from tread_bench.runner.folder import RunFolder, write_document
from tread_bench.suite.plan import Plan, PlannedCell


def measure(
    plan: Plan, cells: Iterable[PlannedCell], folder: RunFolder, site: Site, display: Display
) -> dict[str, TimingFigures]:
    """Return speed and memory of each row of the cells, by row key, measured alone and one at a time.

    A row that could not be measured is left out; it is measured again before its records are written.
    """
    timings = _timed(plan, cells, folder, site, display)
    return {key: found.timing for key, found in timings.items() if isinstance(found, RowTiming)}


def complete(plan: Plan, cells: list[PlannedCell], folder: RunFolder, site: Site, display: Display) -> None:
    """Write speed and memory of their rows into the records of trained cells; what was not measured yet, is now."""
    records = {cell.id: folder.record(cell.id) for cell in cells}
    waiting = [(cell, record) for cell in cells if (record := records[cell.id]) and record.lacks_speed]
    timings = _timed(plan, [cell for cell, _ in waiting], folder, site, display)
    for cell, record in waiting:
        folder.write_record(_completed(record, timings[cell.row_key]))


def _timed(
    plan: Plan, cells: Iterable[PlannedCell], folder: RunFolder, site: Site, display: Display
) -> dict[str, RowTiming | str]:
    """What the seeds of each row share, by its key: as kept in the run folder, or measured on one of its cells.

    A text says why a row has neither speed nor memory.
    """
    # What is kept, if it is what would be measured now.
    examples = {cell.row_key: cell for cell in cells if cell.is_timed}
    timings: dict[str, RowTiming | str] = {}
    requested = TimingRequest(timing=plan.suite.timing, conditions=decisive(folder.existing_plan().conditions))
    for key in examples:
        kept = folder.timing(key)
        if kept is not None and kept.asked == requested:
            timings[key] = kept

    # The others, one at a time.
    missing = {key: cell.row for key, cell in examples.items() if key not in timings}
    if missing:
        display.begin("measuring speed and memory, one row at a time", missing, 1)
    for key in missing:
        timings[key] = _time_row(examples[key], requested, folder, site, display)
    return timings


def _time_row(
    example: PlannedCell, requested: TimingRequest, folder: RunFolder, site: Site, display: Display
) -> RowTiming | str:
    """What the seeds of a row share, measured on one of its cells, each in a process of its own, and kept."""
    key, log = example.row_key, folder.cell(example.id) / "log"
    ends = []
    for function in ("tread_bench.cell.speed:measure_speed", "tread_bench.cell.speed:measure_memory"):
        display.started(key)
        ended = site.end_of(site.task_of_ranks(key, function, folder.root, example.id, log, reports=False))
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


def _completed(trained: Record, timing: RowTiming | str) -> Record:
    """The record of a trained cell with its row's timing, and the timing's conditions where they differ."""
    if isinstance(timing, str):
        failure = {"status": "failed", "reason": timing, "reason_in_training": trained.reason}
        return trained.model_copy(update=failure)
    conditions = trained.conditions
    if differences(conditions, timing.conditions):
        conditions = conditions.model_copy(update={"timed_under": timing.conditions})
    return trained.model_copy(update={"timing": timing.timing, "conditions": conditions})
