"""Speed and memory of each row, alone and one at a time, before any training; later, complete records. No torch."""

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


def complete(
    plan: Plan, cells: list[PlannedCell], folder: RunFolder, site: Site, display: Display, is_part: bool = False
) -> None:
    """Write the cells' complete records, with speed and memory of their rows; what was not measured yet, is now.

    A part of a run measures no speed, so that its trained cells wait for it.
    """
    ended: list[tuple[PlannedCell, Record]] = []
    for cell in cells:
        outcome = folder.outcome(cell.id)
        assert outcome is not None, f"{cell.id} has no outcome after training"
        waits = is_part and plan.suite.timing.pairs and cell.is_timed and outcome.status != "failed"
        if not waits:
            ended.append((cell, outcome))
    timings: dict[str, RowTiming | str] = {}
    if plan.suite.timing.pairs:
        timings = _timed(plan, [cell for cell, outcome in ended if outcome.status == "done"], folder, site, display)
    for cell, outcome in ended:
        folder.write_record(_completed(outcome, timings.get(cell.row_key)))


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


def _completed(outcome: Record, timing: RowTiming | str | None) -> Record:
    """The record of a cell: its outcome with its row's timing, and the timing's conditions where they differ."""
    if outcome.status != "done" or timing is None:
        return outcome
    if isinstance(timing, str):
        return outcome.model_copy(update={"status": "failed", "reason": timing})
    conditions = outcome.conditions
    if differences(conditions, timing.conditions):
        conditions = conditions.model_copy(update={"timed_under": timing.conditions})
    return outcome.model_copy(update={"timing": timing.timing, "conditions": conditions})
