"""Speed and memory of each row, alone and one at a time, after all training; then the cells' records. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from tread_bench.core.stored.conditions import decisive, differences
from tread_bench.core.stored.documents import MeasuredMemory, MeasuredSpeed, RowTiming, TimingRequest
from tread_bench.core.stored.outputs import make_below
from tread_bench.core.stored.records import Record
from tread_bench.runner.display import Display
from tread_bench.runner.executors.site import Site
from tread_bench.runner.executors.tasks import Task
from tread_bench.runner.folder import RunFolder, write_document
from tread_bench.suite.plan import Plan, PlannedCell


def complete(plan: Plan, cells: list[PlannedCell], folder: RunFolder, site: Site, display: Display) -> None:
    """Speed and memory of each row that trains, alone and one at a time; then the cells' complete records."""
    rows: dict[str, list[Record]] = {}
    for cell in cells:
        outcome = folder.outcome(cell.id)
        assert outcome is not None, f"{cell.id} has no outcome after training"
        rows.setdefault(cell.row_key, []).append(outcome)
    timed = {cell.row_key for cell in cells if cell.is_timed}
    measured = [key for key in rows if key in timed and any(outcome.status == "done" for outcome in rows[key])]
    if plan.suite.timing.pairs:
        display.begin("measuring speed and memory, one row at a time", {key: rows[key][0].row for key in measured}, 1)
    for key, outcomes in rows.items():
        timing = None
        if plan.suite.timing.pairs and key in measured:
            example = next(o for o in outcomes if o.status == "done")
            timing = _time_row(key, example.cell, plan, folder, site, display)
        for outcome in outcomes:
            folder.write_record(_completed(outcome, timing))


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a row has neither speed nor memory."""

    reason: str


def _time_row(
    key: str, example: str, plan: Plan, folder: RunFolder, site: Site, display: Display
) -> RowTiming | _Failure:
    """What the seeds of a row share, measured on its cell `example` and kept in the run folder."""
    now = decisive(folder.existing_plan().conditions_of(folder.existing_request(example)))
    requested = TimingRequest(timing=plan.suite.timing, conditions=now)
    kept = folder.timing(key)
    if kept is not None and kept.asked == requested:
        return kept

    # Speed and memory, each in a process of its own.
    ends = []
    for task in _tasks(key, example, folder, site):
        display.started(key)
        ended = site.end_of(task)
        if ended.failure:
            display.ended(key, ended.failure)
            return _Failure(f"measuring speed and memory: {ended.failure}")
        ends.append(ended.value)
    display.ended(key)
    speed: MeasuredSpeed = ends[0]
    memory: MeasuredMemory = ends[1]
    if other := differences(speed.conditions, memory.conditions):
        return _Failure(f"speed and memory were measured on two kinds of machines: {'; '.join(other)}")

    peak = {"peak_memory_mib": memory.peak_memory_mib, "memory_kind": memory.memory_kind}
    timing = speed.timing.model_copy(update=peak)
    measured = RowTiming(row_key=key, asked=requested, timing=timing, conditions=speed.conditions)
    make_below(folder.root, folder.timing_path(key).parent)
    write_document(folder.timing_path(key), measured)
    return measured


def _tasks(key: str, cell_id: str, folder: RunFolder, site: Site) -> list[Task]:
    functions = ("tread_bench.cell.speed:measure_speed", "tread_bench.cell.speed:measure_memory")
    return [site.task(key, function, (folder.root, cell_id), folder.cell(cell_id) / "log") for function in functions]


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
