"""Speed and memory of each row, alone and one at a time, before any training; later, complete records. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
    rows = {cell.row_key: cell for cell in cells if cell.is_timed}
    timings = _timed({key: (cell.row, cell.id) for key, cell in rows.items()}, plan, folder, site, display)
    return {key: found.timing for key, found in timings.items() if isinstance(found, RowTiming)}


def complete(
    plan: Plan, cells: list[PlannedCell], folder: RunFolder, site: Site, display: Display, is_part: bool = False
) -> None:
    """Write the cells' complete records, with speed and memory of their rows; what was not measured yet, is now.

    A part of a run measures no speed, so that its trained cells wait for it.
    """
    rows: dict[str, list[Record]] = {}
    for cell in cells:
        outcome = folder.outcome(cell.id)
        assert outcome is not None, f"{cell.id} has no outcome after training"
        waits = is_part and plan.suite.timing.pairs and cell.is_timed and outcome.status != "failed"
        if not waits:
            rows.setdefault(cell.row_key, []).append(outcome)
    timed = {cell.row_key for cell in cells if cell.is_timed}
    examples = {
        key: (outcome.row, outcome.cell)
        for key, outcomes in rows.items()
        for outcome in reversed(outcomes)
        if key in timed and outcome.status == "done" and plan.suite.timing.pairs
    }
    timings = _timed(examples, plan, folder, site, display)
    for key, outcomes in rows.items():
        for outcome in outcomes:
            folder.write_record(_completed(outcome, timings.get(key)))


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a row has neither speed nor memory."""

    reason: str


def _timed(
    rows: Mapping[str, tuple[str, str]], plan: Plan, folder: RunFolder, site: Site, display: Display
) -> dict[str, RowTiming | _Failure]:
    """What the seeds of each row share, by its key: as kept in the run folder, or measured on its example.

    Args:
        rows: the name and an example, a cell's id, of each row, by its key.
    """
    # What is kept, if it is what would be measured now.
    written = folder.existing_plan()
    timings: dict[str, RowTiming | _Failure] = {}
    missing: list[str] = []
    requested = TimingRequest(timing=plan.suite.timing, conditions=decisive(written.conditions))
    for key in rows:
        kept = folder.timing(key)
        if kept is not None and kept.asked == requested:
            timings[key] = kept
        else:
            missing.append(key)

    # The others, one at a time.
    if missing:
        display.begin("measuring speed and memory, one row at a time", {key: rows[key][0] for key in missing}, 1)
    for key in missing:
        timings[key] = _time_row(key, rows[key][1], requested, folder, site, display)
    return timings


def _time_row(
    key: str, example: str, requested: TimingRequest, folder: RunFolder, site: Site, display: Display
) -> RowTiming | _Failure:
    """What the seeds of a row share, measured on its cell `example`, each in a process of its own, and kept."""
    ends = []
    log = folder.cell(example) / "log"
    for function in ("tread_bench.cell.speed:measure_speed", "tread_bench.cell.speed:measure_memory"):
        display.started(key)
        ended = site.end_of(site.task_of_ranks(key, function, folder.root, example, log, reports=False))
        if ended.failure:
            display.ended(key, ended.failure)
            return _Failure(f"measuring speed and memory: {ended.failure}")
        ends.append(ended.value)
    display.ended(key)
    speed: MeasuredSpeed = ends[0]
    memory: MeasuredMemory = ends[1]
    if other := differences(speed.conditions, memory.conditions):
        return _Failure(f"speed and memory were measured on two kinds of machines: {'; '.join(other)}")

    timing = speed.timing.model_copy(update=memory.model_dump(exclude={"conditions"}))
    measured = RowTiming(row_key=key, asked=requested, timing=timing, conditions=speed.conditions)
    make_below(folder.root, folder.timing_path(key).parent)
    write_document(folder.timing_path(key), measured)
    return measured


def _completed(outcome: Record, timing: RowTiming | _Failure | None) -> Record:
    """The record of a cell: its outcome with its row's timing, and the timing's conditions where they differ."""
    if outcome.status != "done" or timing is None:
        return outcome
    if isinstance(timing, _Failure):
        return outcome.model_copy(update={"status": "failed", "reason": timing.reason})
    conditions = outcome.conditions
    if differences(conditions, timing.conditions):
        conditions = conditions.model_copy(update={"timed_under": timing.conditions})
    return outcome.model_copy(update={"timing": timing.timing, "conditions": conditions})
