"""A suite's life: which cells are missing, measure speed alone, train them, write records. No torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from tread_bench.core.numbers.cell_costs import expected_work
from tread_bench.core.signals import signals_interrupt
from tread_bench.core.stored.initial_record import initial_record
from tread_bench.core.stored.outputs import open_plain
from tread_bench.core.stored.records import Record
from tread_bench.runner.display import Display
from tread_bench.runner.equal_time import is_compared_at_equal_time, plan_equal_times, with_references
from tread_bench.runner.executors.local import end_where_the_script_is_imported
from tread_bench.runner.executors.site import Site, executor_named
from tread_bench.runner.executors.tasks import Ended, Event, Started, TaskProgress
from tread_bench.runner.folder import Kept, RunFolder, check_there, disk_errors_reported
from tread_bench.runner.options import Options
from tread_bench.runner.prepare import (
    check_space,
    data_files,
    device_of,
    references,
    refuse_branches,
    refuse_other_hypothesis,
    resolve_choices,
    write_plan,
)
from tread_bench.runner.speed_phase import complete, measure
from tread_bench.runner.tuning import choices, restate, tunings
from tread_bench.suite.decidable import OBSTACLES, obstacles
from tread_bench.suite.plan import Plan, PlannedCell


@dataclass(frozen=True, slots=True)
class Result:
    """What a call has left: the plan as far as learning rates are known, and the ids of the requested `cells` of it.

    `records` are those of this runner's cells. `finished_now`: how many cells this call finished; `taken`: how many
    another runner still has; `untuned`: rows without a study, since no learning rate is chosen for them.
    """

    plan: Plan
    cells: list[str]
    records: list[Record]
    finished_now: int
    taken: int = 0
    untuned: tuple[str, ...] = ()


def run(
    plan: Plan,
    source: str,
    root: Path,
    options: Options,
    display: Display,
    agree: Callable[[str], None] = lambda message: None,
) -> Result:
    """Bring the run folder to the state that the plan describes; what is already there is kept.

    What the user wants again is removed only after every check that could refuse the run.

    Args:
        agree: gets the message about what `options.fresh` removes, and raises UserError unless the user agrees.

    Raises:
        StoreError: the folder is in use, damaged, not a run folder, or was started under other numerical choices or
            another hypothesis; its disk is full.
        SuiteError: `options.rows` are not those of the plan.
    """
    # Refuse a folder that is not ours.
    end_where_the_script_is_imported()
    chosen = plan.chosen(options.rows)
    folder = RunFolder(root.absolute())
    folder.refuse_foreign()
    with folder.lock(str(options.shard or "")), disk_errors_reported(root), signals_interrupt():
        if not options.begins_again:
            refuse_other_hypothesis(plan, folder)
        run = _Run(source, folder, options, display, agree)
        if plan.tuning:
            return _tune_and_study(plan, chosen, run)
        mine = _part(chosen, options)
        finished, missing = _bring(plan, mine, run)
        return _result(plan, chosen, mine, run, finished, missing - finished)


@dataclass(frozen=True, slots=True)
class _Run:
    """What stays the same in one call."""

    source: str
    folder: RunFolder
    options: Options
    display: Display
    agree: Callable[[str], None]


def _tune_and_study(plan: Plan, chosen: Sequence[PlannedCell], run: _Run) -> Result:
    """Train the candidates of all rows that the chosen cells need, then their study at the rates that are best."""
    # What is tuned, and what is known of the study so far; cells of rows that begin afresh are unknown again.
    folder, options = run.folder, run.options
    rows = {cell.row for cell in chosen}
    tuned = plan.tuned_with(chosen)
    candidates = plan.tuning_cells(tuned)
    folder.refuse_damaged({cell.id: cell.row_key for cell in candidates})
    known = choices(tunings(plan, folder))
    before = _of_rows(plan.with_choices(known), rows)
    if options.fresh:
        known = {row: choice for row, choice in known.items() if row not in tuned}

    # The candidates. Parts of a run take a study only once all learning rates are known, so that all divide the same.
    mine = _part(candidates, options)
    finished, missing = _bring(plan.with_choices(known), mine, run, then=() if options.shard else before)
    tuning = tunings(plan, folder)
    settled = plan.with_choices(choices(tuning))
    untuned = tuple(row for row in tuned if tuning[row].best is None)
    if options.shard and not all(tuning[row].is_over for row in tuned):
        rule = "parts of a run choose learning rates together: when all parts have ended, run this command again"
        run.display.note(f"{rule}, for its part of the study")
        return _result(settled, candidates, mine, run, finished, missing - finished, untuned)

    # The study.
    for row in untuned:
        if tuning[row].is_over:
            run.display.note(f"row {row} has no study: at no learning rate was it trained on every tuning seed")
    study = _of_rows(settled, rows)
    part = _part(study, options)
    if part:
        restate(part, tuning, folder)
        again = replace(options, fresh=False, retry_failed=False)  # both were done to these cells as well
        done, left = _bring(settled, part, replace(run, options=again))
        finished, missing = finished + done, missing + left
    shown = [*mine, *part]
    return _result(settled, [*candidates, *study], shown, run, finished, missing - finished, untuned)


def _of_rows(plan: Plan, rows: Collection[str]) -> list[PlannedCell]:
    return [cell for cell in plan.cells if cell.row in rows]


def _part(cells: Sequence[PlannedCell], options: Options) -> Sequence[PlannedCell]:
    """The cells of this runner."""
    return options.shard.of_cells(cells, _macs(cells)) if options.shard else cells


def _bring(
    plan: Plan, mine: Sequence[PlannedCell], run: _Run, then: Sequence[PlannedCell] | None = None
) -> tuple[int, int]:
    """Bring some cells of a plan up to date; how many of them were finished now, and how many were missing.

    Args:
        then: cells that will be brought up to date after these; what the user wants again of them is removed now, too.
            None: these are the last ones.
    """
    # The missing cells.
    folder, options, display = run.folder, run.options, run.display
    also = then or ()
    folder.refuse_damaged({cell.id: cell.row_key for cell in (*mine, *also)})
    forgotten = _to_forget([*mine, *also], folder, options)
    missing = _missing(mine, plan, folder, options, forgotten)
    lost = [*missing, *(cell for cell in also if cell.id in forgotten)]
    if not lost and (then is not None or _is_what_was_requested(folder, plan, options)):
        folder.restore_suite(run.source)
        return 0, 0

    # What --fresh removes is named first.
    folder.refuse_links(cell.id for cell in mine)
    if options.fresh:
        progress = {cell.id: folder.progress_of(cell.id) for cell in lost}
        begun = [f"  {folder.cell(c.id)}: {c.row} seed {c.seed}, {progress[c.id]}" for c in lost if progress[c.id]]
        if begun:
            run.agree("\n".join(["--fresh removes what these cells have:", *begun]))
    try:
        with folder.turn():
            # Where cells will run, and which of them have to be trained.
            limits, threads = plan.suite.limits, plan.suite.compute.threads
            device = device_of(folder, options)
            executor = executor_named(options.executor, options.workers, folder.root, limits)
            uses_gpus = device == "cuda" or (device == "auto" and executor.may_have_gpus())
            site = Site(executor, limits, threads, limits.gpus_per_cell if uses_gpus else 0)
            again = [cell_id for cell_id, kept in forgotten.items() if kept is Kept.NOTHING]
            trained_again = {cell_id for cell_id, kept in forgotten.items() if kept is not Kept.TRAINING}
            untrained = [cell for cell in missing if cell.id in trained_again or folder.outcome(cell.id) is None]

            # Every check that can refuse the run.
            refuse_branches((cell for cell in untrained if cell.id not in again), folder)
            files = data_files(untrained, folder, options.begins_again, display.note)
            if not options.runs_here:  # another machine may have a queue
                display.begin(f"checking a machine of {options.executor}", {"numerics": "numerical choices"}, 1)
                display.started("numerics")
            choices = resolve_choices(plan, folder, site, replace(options, device=device), untrained)
            if not options.runs_here:
                display.ended("numerics")
            executor = executor.sized(choices.numerics, limits.processes_per_cell)
            is_gpu = choices.numerics.device == "cuda"
            site = Site(executor, limits, threads, limits.gpus_per_cell if is_gpu else 0)
            check_space(untrained, folder, executor.at_once)

            # Remove what is wanted again, and write the plan.
            for cell in lost:
                if cell.id in forgotten:
                    folder.forget(cell.id, cell.row_key, forgotten[cell.id])
            timed = [] if options.shard or not plan.suite.timing.pairs else with_references(missing, plan)
            requested = [*missing, *(cell for cell in timed if folder.request(cell.id) is None)]
            in_order = dict(sorted(files.items()))
            write_plan(plan, requested, run.source, folder, choices, options.begins_again, in_order, again)
        if options.device == "auto" and device != "auto":
            display.note(f"device: {device}, on which {folder.root} was started")
        elif options.device == "auto":
            why = "; --device cpu selects the CPU" if is_gpu else ", since no CUDA device was found"
            display.note(f"device: {choices.numerics.device} ({choices.numerics.device_name}){why}")

        # What the suite cannot decide is said before anything is trained, and once: with candidates of rates, if any.
        if (then is not None or not plan.tuning) and (found := obstacles(plan)):
            display.note("\n".join([OBSTACLES, *map(str, found)]))

        # Time each row alone, which says where it is evaluated at equal time; a part of a run leaves that out.
        if timed:
            plan_equal_times(plan, untrained, measure(plan, timed, folder, site, display), folder)
        elif options.shard and any(is_compared_at_equal_time(cell.cell) for cell in untrained):
            display.note("not evaluated at equal time: a part of a run does not measure the speed of its steps")

        # Train, first the cells whose steps or weights others have; then write the records.
        for wave in placed(untrained):
            _train([cell for cell in wave if _sources_ended(cell, folder)], folder, site, display)
        trained = [cell for cell in missing if folder.outcome(cell.id) is not None]
        untimed = trained
        if options.shard and plan.suite.timing.pairs:  # a part of a run has no speed: its cells wait for it
            failed = {cell.id for cell in trained if (left := folder.outcome(cell.id)) and left.status == "failed"}
            untimed = [cell for cell in trained if not cell.is_timed or cell.id in failed]
        complete(plan, untimed, folder, site, display)
    finally:
        display.end()
    return len(trained), len(missing)


def _macs(cells: Sequence[PlannedCell]) -> dict[str, int]:
    """What a cell costs, by row key."""
    return {key: expected_work(cell.cell).total for key, cell in {cell.row_key: cell for cell in cells}.items()}


def placed(cells: Sequence[PlannedCell]) -> list[list[PlannedCell]]:
    """In starting order, a wave after the other: trainings, those that start from others' weights, and cells that
    evaluate those; longest first.
    """
    macs = _macs(cells)
    ordered = sorted(cells, key=lambda cell: -macs[cell.row_key])
    waves: list[list[PlannedCell]] = [[], [], []]
    for cell in ordered:
        waves[bool(cell.sources) if cell.cell.evaluate is None else 2].append(cell)
    return [wave for wave in waves if wave]


def _sources_ended(cell: PlannedCell, folder: RunFolder) -> bool:
    """Whether no other process is still training what the cell reads."""
    read = [source.cell for source in cell.sources.values() if not source.run]
    return all(folder.outcome(name) or folder.record(name) for name in read)


def _result(
    plan: Plan,
    requested: Sequence[PlannedCell],
    mine: Sequence[PlannedCell],
    run: _Run,
    finished: int,
    taken: int,
    untuned: tuple[str, ...] = (),
) -> Result:
    """With all records of the run; of a part, the results of its own cells, with or without speed."""
    folder = run.folder
    if run.options.shard is None:
        records = folder.records(references(plan))
    else:
        left = (folder.record(cell.id) or folder.outcome(cell.id) for cell in mine)
        records = [one for one in left if one is not None]
    return Result(plan, [cell.id for cell in requested], records, finished, taken, untuned)


def _to_forget(cells: Sequence[PlannedCell], folder: RunFolder, options: Options) -> dict[str, Kept]:
    """The cells that the user wants to run again, by id, and what each keeps."""
    if options.fresh:
        return dict.fromkeys((cell.id for cell in cells), Kept.NOTHING)
    found: dict[str, Kept] = {}
    for cell in cells if options.retry_failed else ():
        outcome = folder.outcome(cell.id)
        latest = folder.record(cell.id) or outcome
        if latest is not None and latest.status == "failed":
            is_trained = outcome is not None and outcome.status == "done"
            found[cell.id] = Kept.TRAINING if is_trained else Kept.NOTHING
            # Where training diverged, it would do so again from a checkpoint.
            if not is_trained and folder.has_checkpoints(cell.id) and not latest.has_diverged:
                found[cell.id] = Kept.CHECKPOINTS
    return found


def _missing(
    cells: Sequence[PlannedCell],
    plan: Plan,
    folder: RunFolder,
    options: Options,
    forgotten: Collection[str],
) -> list[PlannedCell]:
    """Cells without a record, and those whose record will be removed. Seed by seed, so that pairs come early.

    For a runner of a part, the result of training counts as a record.
    """
    missing = []
    seeds = [*plan.suite.seeds, *(plan.suite.tune.seed_numbers if plan.suite.tune else ())]
    for cell in sorted(cells, key=lambda cell: seeds.index(cell.paired_seed)):
        if cell.id in forgotten:
            missing.append(cell)
            continue
        record = folder.record(cell.id)
        there = record if options.shard is None else record or folder.outcome(cell.id)
        untimed = cell.is_timed and there is not None and there.status == "done" and there.timing is None
        if there is None or (untimed and plan.suite.timing.pairs and options.shard is None):
            missing.append(cell)
    return missing


def _is_what_was_requested(folder: RunFolder, plan: Plan, options: Options) -> bool:
    """Whether plan.json says what this call requests."""
    written = folder.plan()
    if written is None:
        return False
    device = written.numerics.device if options.device == "auto" else options.device
    requested = (references(plan), plan.suite.timing, device, plan.is_smoke, tunings(plan, folder))
    there = (written.references, written.timing, written.numerics.device, written.smoke, written.tuning)
    return requested == there


def _train(cells: list[PlannedCell], folder: RunFolder, site: Site, display: Display) -> None:
    """Train in parallel, in this order; a cell without an outcome at the end keeps a row with the reason.

    Cells whose process was lost resume from their checkpoint after all others, where there is more room.
    """
    # The name of the phase in which these cells run.
    if any(cell.tunes for cell in cells):
        phase = "choosing learning rates"
    elif any(cell.trains for cell in cells):
        phase = "training"
    else:
        phase = "counting costs" if cells and cells[0].is_timed else "evaluating"

    left, retries = {cell.id: cell for cell in cells}, site.limits.retries
    function = "tread_bench.cell.run:run_cell"
    for retries_left in reversed(range(1 + retries)):
        if not left:
            return
        named = phase if retries_left == retries else f"{phase}, lost cells again"
        display.begin(named, {c.id: f"{c.row} seed {c.seed}" for c in left.values()}, site.executor.at_once)
        tasks = [
            site.task_of_ranks(name, function, folder.root, name, folder.cell(name) / "log", reports=True)
            for name in left
        ]
        with closing(site.executor(tasks)) as events:
            for event in _shown(events, folder, display):
                _note_end(event, folder, is_final=not event.lost or not retries_left, display=display)
        left = {cell_id: cell for cell_id, cell in left.items() if folder.outcome(cell_id) is None}


def _note_end(event: Ended, folder: RunFolder, is_final: bool, display: Display) -> None:
    """Show how an attempt ended; one without an outcome is noted in the cell's log, and the last one gets a row.

    It gets none while a process still works on the cell. A retry waits for that process, often its dying predecessor.
    """
    outcome = folder.outcome(event.key)
    if outcome is None and not event.failure:
        outcome = event.value  # a shared disk may show the file only later
        folder.write_record(event.value, "outcome.json")
    if outcome is not None or (is_final and folder.is_taken(event.key)):
        display.ended(event.key, outcome.reason if outcome else "another process is still working on it")
        return
    folder.end_attempt(event.key, event.failure)
    attempts = folder.attempts(event.key)
    message = f"{event.failure}; attempt {len(attempts)}" if len(attempts) > 1 or not is_final else event.failure
    if is_final:
        request, plan = folder.existing_request(event.key), folder.existing_plan()
        lost = initial_record(request, plan, reason=message, attempts=attempts)
        folder.write_record(lost, "outcome.json")
    display.ended(event.key, message if is_final else f"{message}; it will be retried")
    with open_plain(folder.cell(event.key) / "log", "a") as log:
        log.write(f"runner: {message}\n")


def _shown(events: Iterable[Event], folder: RunFolder, display: Display) -> Iterator[Ended]:
    """Pass what happens to the display; yield the ends.

    Raises:
        StoreError: the run folder is gone; OSError: a disk cannot be used.
    """
    for event in events:
        check_there(folder.root)
        match event:
            case Started(key):
                display.started(key)
            case TaskProgress(key, phase, done, of, loss):
                display.progressed(key, phase, done, of, loss)
            case Ended(disk=OSError() as error):
                raise error
            case Ended():
                yield event
