"""A suite's life: which cells are missing, train them, measure speed alone, write records and the report. No torch."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tread_bench.blank import blank_record
from tread_bench.executors.local import Ended, Event, Started, Task, Told, run_tasks
from tread_bench.plan import Plan, PlannedCell
from tread_bench.progress import Display
from tread_bench.records import Record
from tread_bench.store import RunFolder, StoreError, read_json, write_atomically, write_json


@dataclass(frozen=True, slots=True)
class Options:
    """How a suite is run on this machine; none of it changes a figure."""

    device: str = "cpu"
    workers: int | None = None
    retry_failed: bool = False
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The records of all cells, and how many of them this call finished."""

    records: list[Record]
    finished_now: int


def run(plan: Plan, source: str, root: Path, options: Options, display: Display) -> Result:
    """Bring the run folder to the state that the plan asks for; what is there already is kept.

    Raises:
        StoreError: the folder is in use, damaged, or was begun under other numerical choices.
    """
    folder = RunFolder(root)
    with folder.lock(), _signals_interrupt():
        missing = _missing(plan, folder, options)
        if not missing and _is_what_was_asked(folder.plan(), plan, options):
            return Result(folder.records(_references(plan)), 0)
        _begin(plan, missing, source, folder, options)
        untrained = [cell for cell in missing if folder.outcome(cell.id) is None]
        try:
            _train(untrained, folder, options, display)
            _measure(plan, missing, folder, display)
        finally:
            display.end()
        records = folder.records(_references(plan))
        return Result(records, len(missing))


def _missing(plan: Plan, folder: RunFolder, options: Options) -> list[PlannedCell]:
    """Cells without a record, after forgetting what the user wants again. Seed by seed, so that pairs come early."""
    missing = []
    for cell in sorted(plan.cells, key=lambda cell: plan.suite.seeds.index(cell.seed)):
        record, outcome = folder.record(cell.id), folder.outcome(cell.id)
        latest = record or outcome
        if options.fresh or (options.retry_failed and latest is not None and latest.status == "failed"):
            trained = outcome is not None and outcome.status == "done" and not options.fresh
            folder.forget(cell.id, cell.row_key, keep_training=trained)
            record = None
        untimed = record is not None and record.status == "done" and record.timing is None
        if record is None or (untimed and plan.suite.timing.pairs):
            missing.append(cell)
    return missing


def _references(plan: Plan) -> dict[str, str]:
    """Each cell and the dense cell it is compared with, as the suite has it now."""
    return {cell.id: cell.reference for cell in plan.cells}


def _is_what_was_asked(written: dict[str, Any] | None, plan: Plan, options: Options) -> bool:
    """Whether plan.json says what this call asks for."""
    if written is None:
        return False
    asked = (_references(plan), plan.suite.timing.model_dump(mode="json"), options.device)
    return (written.get("references"), written["timing"], written["numerics"]["device"]) == asked


def _begin(plan: Plan, missing: list[PlannedCell], source: str, folder: RunFolder, options: Options) -> None:
    """Settle the numerical choices and write suite.yaml, plan.json and what each cell's process reads."""
    compute = (plan.suite.compute, options.device)
    settled = _one(Task("numerics", "tread_bench.numerics:settle", compute, folder.root / "run.log"))
    if settled.failure:
        raise StoreError(settled.failure)
    about, before = settled.value, folder.plan()
    if before is not None and not options.fresh:
        _refuse_other_numerics(before["numerics"], about["numerics"], folder.root)
    write_atomically(folder.root / "suite.yaml", source)
    write_json(
        folder.plan_path,
        {
            "suite": {"name": plan.suite.name, "description": plan.suite.description},
            "timing": plan.suite.timing.model_dump(mode="json"),
            "cells": [cell.id for cell in plan.cells],
            "references": _references(plan),
            "git": git_state(),
            "hardware": {"cpus": os.cpu_count(), "memory_mib": psutil.virtual_memory().total // 2**20},
            **about,
        },
    )
    for cell in missing:
        write_json(folder.cell(cell.id) / "cell.json", _about(plan, cell))


def _about(plan: Plan, cell: PlannedCell) -> dict[str, Any]:
    return {
        "cell": cell.id,
        "suite": plan.suite.name,
        "row": cell.row,
        "seed": cell.seed,
        "reference": cell.reference,
        "backbone": cell.cell.backbone.label,
        "config": cell.cell.model_dump(mode="json"),
    }


def _refuse_other_numerics(before: dict[str, Any], now: dict[str, Any], root: Path) -> None:
    chosen = now.keys() - {"matmul_relative_error", "device_count"}  # they change no figure
    changed = [
        f"{key} was {before.get(key)!r}, is {now[key]!r}" for key in sorted(chosen) if before.get(key) != now[key]
    ]
    if changed:
        raise StoreError(
            f"{root} was begun under other numerical choices ({'; '.join(changed)}), so its cells would not compare: "
            "give another --out, or --fresh to begin again"
        )


def _train(cells: list[PlannedCell], folder: RunFolder, options: Options, display: Display) -> None:
    """Train in parallel; a cell whose process dies keeps a row with the reason."""
    plan = folder.plan() or {}
    workers = options.workers or default_workers(plan["numerics"])
    tasks = [
        Task(c.id, "tread_bench.cell:run_cell", (folder.root, c.id), folder.cell(c.id) / "log", reports=True)
        for c in cells
    ]
    display.begin("training", {c.id: f"{c.row} seed {c.seed}" for c in cells}, workers)
    gpus = int(plan["numerics"]["device_count"]) if options.device == "cuda" else 0
    with closing(run_tasks(tasks, workers, gpus)) as events:
        for event in _shown(events, display):
            if event.failure and folder.outcome(event.key) is None:
                about = read_json(folder.cell(event.key) / "cell.json")
                folder.write_record(blank_record(about, plan, reason=event.failure), "outcome.json")
            outcome = folder.outcome(event.key)
            display.ended(event.key, outcome.reason if outcome else "")


def _measure(plan: Plan, cells: list[PlannedCell], folder: RunFolder, display: Display) -> None:
    """Speed and memory of each row, alone and one at a time; then the cells' records, whole."""
    rows: dict[str, list[Record]] = {}
    for cell in cells:
        outcome = folder.outcome(cell.id)
        assert outcome is not None, f"{cell.id} has no outcome after training"
        rows.setdefault(cell.row_key, []).append(outcome)
    measured = [key for key, outcomes in rows.items() if any(o.status == "done" for o in outcomes)]
    if plan.suite.timing.pairs:
        display.begin("measuring speed and memory, alone", {key: rows[key][0].row for key in measured}, 1)
    for key, outcomes in rows.items():
        timing: dict[str, Any] = {}
        if plan.suite.timing.pairs and key in measured:
            example = next(o for o in outcomes if o.status == "done")
            timing = _time_row(key, example, plan.suite.timing.model_dump(mode="json"), folder, display)
        for outcome in outcomes:
            folder.write_record(_completed(outcome, timing))


def _time_row(key: str, example: Record, asked: dict[str, Any], folder: RunFolder, display: Display) -> dict[str, Any]:
    """What the seeds of a row share: {"timing": figures} or {"failure": reason}; kept in the run folder."""
    path = folder.timing_path(key)
    kept = read_json(path)
    if kept is not None and kept["asked"] == asked:
        return kept
    log = folder.cell(example.cell) / "log"
    figures: dict[str, Any] = {}
    for function in ("measure_speed", "measure_memory"):
        display.started(key)
        ended = _one(Task(key, f"tread_bench.speed:{function}", (folder.root, example.cell), log))
        if ended.failure:
            display.ended(key, ended.failure)
            return {"failure": f"measuring speed and memory: {ended.failure}"}
        figures |= ended.value
    display.ended(key)
    measured = {"asked": asked, "timing": figures}
    write_json(path, measured)
    return measured


def _completed(outcome: Record, timing: dict[str, Any]) -> Record:
    if outcome.status != "done" or not timing:
        return outcome
    if "failure" in timing:
        return outcome.model_copy(update={"status": "failed", "reason": timing["failure"]})
    return Record.model_validate({**outcome.model_dump(), "timing": timing["timing"]})


def _shown(events: Iterable[Event], display: Display) -> Iterator[Ended]:
    """Pass what happens to the display; yield the ends."""
    for event in events:
        match event:
            case Started(key):
                display.started(key)
            case Told(key, phase, done, of, loss):
                display.told(key, phase, done, of, loss)
            case Ended():
                yield event


def _one(task: Task) -> Ended:
    """The end of one task in a process of its own."""
    return next(event for event in run_tasks([task], 1) if isinstance(event, Ended))


def default_workers(numerics: dict[str, Any]) -> int:
    """One per GPU; on a CPU as many as its threads allow."""
    if numerics["device"] == "cuda":
        return int(numerics["device_count"])
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cpus // int(numerics["threads"]))


def git_state() -> dict[str, Any] | None:
    """Commit of this program's checkout and whether it was changed; None for an installed copy.

    An environment often stands inside some checkout, so what counts is whether git tracks this very file.
    """

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return {"commit": git("rev-parse", "HEAD").strip(), "changed": bool(git("status", "--porcelain").strip())}
    except (OSError, subprocess.CalledProcessError):
        return None


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: children first, nothing half written."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
