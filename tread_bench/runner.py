"""A suite's life: which cells are missing, train them, measure speed alone, write records. No torch."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tread_bench.blank import blank_record
from tread_bench.config import Limits
from tread_bench.executors.local import run_tasks
from tread_bench.executors.tasks import Ended, Event, Started, Task, Told
from tread_bench.plan import Plan, PlannedCell
from tread_bench.preparation import check_space, default_workers, references, settle, write_plan
from tread_bench.progress import Display
from tread_bench.records import Record
from tread_bench.store import RunFolder, disk_errors_told
from tread_bench.timings import complete


@dataclass(frozen=True, slots=True)
class Options:
    """How a suite is run on this machine; none of it changes a figure, but for numerics that are accepted."""

    device: str = "cpu"
    workers: int | None = None
    retry_failed: bool = False
    fresh: bool = False
    accept_other_numerics: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The records of all cells, and how many of them this call finished."""

    records: list[Record]
    finished_now: int


def run(plan: Plan, source: str, root: Path, options: Options, display: Display) -> Result:
    """Bring the run folder to the state that the plan asks for; what is there already is kept.

    Raises:
        StoreError: the folder is in use, damaged, or was begun under other numerical choices; its disk is full.
    """
    folder = RunFolder(root)
    with folder.lock(), disk_errors_told(root), _signals_interrupt():
        missing = _missing(plan, folder, options)
        if not missing and _is_what_was_asked(folder.plan(), plan, options):
            return Result(folder.records(references(plan)), 0)
        about = settle(plan, folder, options.device, options.fresh or options.accept_other_numerics)
        untrained = [cell for cell in missing if folder.outcome(cell.id) is None]
        workers = options.workers or default_workers(about["numerics"])
        check_space(untrained, folder, workers)
        write_plan(plan, missing, source, folder, about)
        gpus = int(about["numerics"]["device_count"]) if options.device == "cuda" else 0
        try:
            for wave in ([c for c in untrained if not c.sources], [c for c in untrained if c.sources]):
                if wave:
                    _train(wave, folder, plan.suite.limits, workers, gpus, display)
            complete(plan, missing, folder, display)
        finally:
            display.end()
        return Result(folder.records(references(plan)), len(missing))


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
        untimed = cell.trains and record is not None and record.status == "done" and record.timing is None
        if record is None or (untimed and plan.suite.timing.pairs):
            missing.append(cell)
    return missing


def _is_what_was_asked(written: dict[str, Any] | None, plan: Plan, options: Options) -> bool:
    """Whether plan.json says what this call asks for."""
    if written is None:
        return False
    asked = (references(plan), plan.suite.timing.model_dump(mode="json"), options.device)
    return (written.get("references"), written["timing"], written["numerics"]["device"]) == asked


def _train(
    cells: list[PlannedCell], folder: RunFolder, limits: Limits, workers: int, gpus: int, display: Display
) -> None:
    """Train in parallel; a cell that has no outcome in the end keeps a row with the reason.

    Cells whose process was lost go on from their checkpoint after all others, where there is more room.
    """
    left = {cell.id: cell for cell in cells}
    for retries_left in reversed(range(1 + limits.retries)):
        phase = "training" if cells[0].trains else "evaluating"
        phase = phase if retries_left == limits.retries else f"{phase}, what was lost"
        display.begin(phase, {c.id: f"{c.row} seed {c.seed}" for c in left.values()}, workers)
        with closing(run_tasks(_tasks(left, folder, limits), workers, gpus)) as events:
            for event in _shown(events, display):
                _note_end(event, folder, is_final=not event.lost or not retries_left, display=display)
        left = {cell_id: cell for cell_id, cell in left.items() if folder.outcome(cell_id) is None}
        if not left:
            return


def _tasks(cell_ids: Collection[str], folder: RunFolder, limits: Limits) -> list[Task]:
    function = "tread_bench.cell:run_cell"
    return [Task(c, function, (folder.root, c), folder.cell(c) / "log", True, limits.limit_s) for c in cell_ids]


def _note_end(event: Ended, folder: RunFolder, is_final: bool, display: Display) -> None:
    """Show how an attempt ended; one without an outcome is noted in the cell's log, and a final one gets its row."""
    outcome = folder.outcome(event.key)
    if outcome is not None:
        display.ended(event.key, outcome.reason)
        return
    folder.end_attempt(event.key, event.failure)
    attempts = folder.attempts(event.key)
    told = f"{event.failure}; attempt {len(attempts)}" if len(attempts) > 1 or not is_final else event.failure
    if is_final:
        blank = blank_record(folder.about(event.key) or {}, folder.plan() or {}, reason=told, attempts=attempts)
        folder.write_record(blank, "outcome.json")
    display.ended(event.key, told if is_final else f"{told}, it will be tried again")
    with open(folder.cell(event.key) / "log", "a") as log:
        log.write(f"runner: {told}\n")


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
