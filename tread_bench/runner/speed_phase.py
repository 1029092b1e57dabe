"""Speed and memory of each row, alone and one at a time, after all training; then the cells' records. No torch."""

from __future__ import annotations

from typing import Any

from tread_bench.core.conditions import TIMED, conditions, decisive, differences
from tread_bench.core.files import write_json
from tread_bench.core.outputs import make_below
from tread_bench.core.records import Record
from tread_bench.runner.display import Display
from tread_bench.runner.executors.site import Site
from tread_bench.runner.executors.tasks import Task
from tread_bench.runner.folder import RunFolder
from tread_bench.suite.plan import Plan, PlannedCell


def complete(plan: Plan, cells: list[PlannedCell], folder: RunFolder, site: Site, display: Display) -> None:
    """Speed and memory of each row that trains, alone and one at a time; then the cells' records, whole."""
    rows: dict[str, list[Record]] = {}
    for cell in cells:
        outcome = folder.outcome(cell.id)
        assert outcome is not None, f"{cell.id} has no outcome after training"
        rows.setdefault(cell.row_key, []).append(outcome)
    timed = {cell.row_key for cell in cells if cell.trains}
    measured = [key for key in rows if key in timed and any(outcome.status == "done" for outcome in rows[key])]
    if plan.suite.timing.pairs:
        display.begin("measuring speed and memory, alone", {key: rows[key][0].row for key in measured}, 1)
    for key, outcomes in rows.items():
        timing: dict[str, Any] = {}
        if plan.suite.timing.pairs and key in measured:
            example = next(o for o in outcomes if o.status == "done")
            timing = _time_row(key, example.cell, plan, folder, site, display)
        for outcome in outcomes:
            folder.write_record(_completed(outcome, timing))


def _time_row(key: str, example: str, plan: Plan, folder: RunFolder, site: Site, display: Display) -> dict[str, Any]:
    """What the seeds of a row share, measured on its cell `example` and kept in the run folder: {"timing": figures,
    "conditions": ...} or {"failure": reason}.
    """
    now = conditions(folder.plan() or {})
    asked = {"timing": plan.suite.timing.model_dump(mode="json"), "conditions": decisive(now)}
    kept = folder.timing(key)
    if kept is not None and kept["asked"] == asked:
        return kept
    figures: dict[str, Any] = {}
    where: list[dict[str, Any]] = []
    for task in _tasks(key, example, folder, site):
        display.started(key)
        ended = site.end_of(task)
        if ended.failure:
            display.ended(key, ended.failure)
            return {"failure": f"measuring speed and memory: {ended.failure}"}
        figures |= ended.value["timing"]
        where.append(ended.value["conditions"])
    display.ended(key)
    if other := differences(*where):
        return {"failure": f"speed and memory were measured on two kinds of machines: {'; '.join(other)}"}
    measured = {"row_key": key, "asked": asked, "timing": figures, "conditions": where[0]}
    make_below(folder.root, folder.timing_path(key).parent)
    write_json(folder.timing_path(key), measured)
    return measured


def _tasks(key: str, cell_id: str, folder: RunFolder, site: Site) -> list[Task]:
    functions = ("tread_bench.cell.speed:measure_speed", "tread_bench.cell.speed:measure_memory")
    return [site.task(key, function, (folder.root, cell_id), folder.cell(cell_id) / "log") for function in functions]


def _completed(outcome: Record, timing: dict[str, Any]) -> Record:
    """The record of a cell: its outcome with its row's timing, and the timing's conditions where they are others."""
    if outcome.status != "done" or not timing:
        return outcome
    if "failure" in timing:
        return outcome.model_copy(update={"status": "failed", "reason": timing["failure"]})
    other = differences(outcome.conditions, timing["conditions"])
    about = {**outcome.conditions, **({TIMED: timing["conditions"]} if other else {})}
    return Record.model_validate({**outcome.model_dump(), "timing": timing["timing"], "conditions": about})
