"""A suite's life: what is to be done for each cell, measure speed alone, train, write records. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from tread_bench.core.numbers.costs import expected_work
from tread_bench.core.processes import signals_interrupt
from tread_bench.core.stored.documents import initial_record
from tread_bench.core.stored.files import open_plain, read_bytes, write_atomically
from tread_bench.core.stored.records import Record
from tread_bench.runner.executors.tasks import Ended, Site, TaskProgress
from tread_bench.runner.folder import Kept, RunFolder, check_there, disk_errors_reported
from tread_bench.runner.items import Todo, WorkItem, chosen_rates, restate, tunings, work_items
from tread_bench.runner.options import Call, Display, Options
from tread_bench.runner.prepare import prepare, references, refuse_other_hypothesis, write_plan
from tread_bench.runner.speed import complete, is_compared_at_equal_time, measure, plan_equal_times, with_references
from tread_bench.suite.decidable import OBSTACLES, obstacles
from tread_bench.suite.plan import Plan, PlannedCell


@dataclass(frozen=True, slots=True)
class Result:
    """What a call has left: the plan as far as learning rates are known, and the requested `cells` of it.

    `records` are those of this runner's cells. `finished_now`: how many cells this call finished; `taken`: how many
    another runner still has; `untuned`: rows without a study, since no learning rate is chosen for them.
    """

    plan: Plan
    cells: Sequence[PlannedCell]
    records: list[Record]
    finished_now: int
    taken: int = 0
    untuned: tuple[str, ...] = ()


def run(plan: Plan, call: Call) -> Result:
    """Bring the run folder to the state that the plan describes; what is already there is kept.

    What the user wants again is removed only after every check that could refuse the run.

    Raises:
        StoreError: the folder is in use, damaged, not a run folder, or was started under other numerical choices or
            another hypothesis; its disk is full.
        SuiteError: `options.rows` are not those of the plan.
    """
    # Refuse a folder that is not ours.
    folder, options = call.folder, call.options
    chosen = plan.chosen(options.rows)
    folder.refuse_foreign()
    with folder.lock(str(options.shard or "")), disk_errors_reported(folder.root), signals_interrupt():
        if not options.begins_again:
            refuse_other_hypothesis(plan, folder)
        if plan.tuning:
            return _tune_and_study(plan, chosen, call)
        mine = _part(chosen, options)
        finished, taken = _bring_up_to_date(plan, work_items(mine, plan, folder, options), call)
        return Result(plan, chosen, _records(plan, mine, call), finished, taken)


def _tune_and_study(plan: Plan, chosen: Sequence[PlannedCell], call: Call) -> Result:
    """Train the candidates of all rows that the chosen cells need, then their study at the rates that are best."""
    # What is tuned, and what is known of the study so far; cells of rows that begin afresh are unknown again.
    folder, options = call.folder, call.options
    rows = {cell.row for cell in chosen}
    tuned = plan.tuned_with(chosen)
    candidates = plan.tuning_cells(tuned)
    items = work_items(candidates, plan, folder, options)
    known = chosen_rates(tunings(plan, folder))
    before = [cell for cell in plan.with_choices(known).cells if cell.row in rows]
    if options.fresh:
        known = {row: choice for row, choice in known.items() if row not in tuned}

    # The candidates; what the user wants again of the study is forgotten with theirs. Parts of a run take a study only
    # once all learning rates are known, so that all divide the same.
    mine = _part(candidates, options)
    if options.shard:
        items = [item for item in items if item.cell in mine]
    else:
        items += [replace(item, todo=Todo.KEEP) for item in work_items(before, plan, folder, options)]
    finished, taken = _bring_up_to_date(plan.with_choices(known), items, call, is_last=False)
    tuning = tunings(plan, folder)
    settled = plan.with_choices(chosen_rates(tuning))
    untuned = tuple(row for row in tuned if tuning[row].best is None)
    for row in untuned:
        if tuning[row].is_over:
            call.display.note(f"row {row} has no study: at no learning rate was it trained on every tuning seed")

    # The study.
    study = [cell for cell in settled.cells if cell.row in rows]
    if options.shard and not all(tuning[row].is_over for row in tuned):
        study = []
        rule = "parts of a run choose learning rates together: when all parts have ended, run this command again"
        call.display.note(f"{rule}, for its part of the study")
    part = _part(study, options)
    if part:
        restate(part, tuning, folder)
        again = replace(options, fresh=False, retry_failed=False)  # both were done to these cells as well
        items = work_items(part, settled, folder, again)
        finished_after, taken_after = _bring_up_to_date(settled, items, replace(call, options=again))
        finished, taken = finished + finished_after, taken + taken_after
    return Result(settled, [*candidates, *study], _records(settled, [*mine, *part], call), finished, taken, untuned)


def _part(cells: Sequence[PlannedCell], options: Options) -> Sequence[PlannedCell]:
    """The cells of this runner."""
    return options.shard.of_cells(cells, _macs(cells)) if options.shard else cells


def _bring_up_to_date(plan: Plan, items: Sequence[WorkItem], call: Call, is_last: bool = True) -> tuple[int, int]:
    """Do what is to be done for some cells of a plan.

    Returns:
        how many of those that were missing are finished now, and how many another runner still has.

    Args:
        is_last: no other cells of the run follow in this call.
    """
    folder, options, display = call.folder, call.options, call.display
    missing = [item.cell for item in items if item.todo is not Todo.KEEP]
    untrained = [item.cell for item in items if item.todo is Todo.TRAIN]
    is_forgetting = any(item.kept is not None for item in items)
    if not missing and not is_forgetting and (not is_last or _is_what_was_requested(folder, plan, options)):
        suite = folder.root / "suite.yaml"
        if read_bytes(suite) != call.source.encode():
            write_atomically(suite, call.source)
        return 0, 0

    # The user agrees to what --fresh removes.
    folder.refuse_links(item.cell.id for item in items)
    begun = [f"  {folder.cell(i.cell.id)}: {i.cell.row} seed {i.cell.seed}, {i.state}" for i in items if i.state]
    if options.fresh and begun:
        call.agree("\n".join(["--fresh removes what these cells have:", *begun]))
    try:
        with folder.turn():
            # Every check that can refuse the run; then what is wanted again is forgotten, and the plan is written.
            before = None if options.begins_again else folder.plan()
            site, choices, files = prepare(plan, untrained, before, call)
            for item in items:
                if item.kept is not None:
                    folder.forget(item.cell.id, item.cell.row_key, item.kept)
            timed = [] if options.shard or not plan.suite.timing.pairs else with_references(missing, plan)
            requested = [*missing, *(cell for cell in timed if folder.request(cell.id) is None)]
            anew = [item.cell.id for item in items if item.kept is Kept.NOTHING]
            write_plan(plan, requested, call.source, folder, choices, before, files, anew)

        # What the suite cannot decide is said before anything is trained, and once: with candidates of rates, if any.
        if (not is_last or not plan.tuning) and (found := obstacles(plan)):
            display.note("\n".join([OBSTACLES, *map(str, found)]))

        # Time each row alone, which says where it is evaluated at equal time; a part of a run leaves that out.
        if timed:
            plan_equal_times(plan, untrained, measure(plan, timed, call, site), folder)
        elif options.shard and any(is_compared_at_equal_time(cell.cell) for cell in untrained):
            display.note("not evaluated at equal time: a part of a run does not measure the speed of its steps")

        # Train, first the cells whose steps or weights others have; then complete the records.
        for wave in placed(untrained):
            _train([cell for cell in wave if _sources_ended(cell, folder)], folder, site, display)
        ended = [(cell, record) for cell in missing if (record := folder.record(cell.id)) is not None]
        if plan.suite.timing.pairs and options.shard is None:
            complete(plan, ended, call, site)
    finally:
        display.end()
    return len(ended), len(missing) - len(ended)


def _macs(cells: Sequence[PlannedCell]) -> dict[str, int]:
    """What a cell costs, by row key."""
    return {key: sum(expected_work(cell.cell)) for key, cell in {cell.row_key: cell for cell in cells}.items()}


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
    return all(folder.record(name) for name in read)


def _records(plan: Plan, mine: Sequence[PlannedCell], call: Call) -> list[Record]:
    """All records of the run; of a part, those of its own cells, with or without speed."""
    of_part = {cell.id: cell.reference for cell in mine}
    return call.folder.records(of_part if call.options.shard else references(plan))


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
    """Train in parallel, in this order; a cell without a record at the end gets one with the reason.

    Cells whose process was lost resume from their checkpoint after all others, where there is more room.

    Raises:
        StoreError: the run folder is gone; OSError: a disk cannot be used.
    """
    # The name of the phase in which these cells run.
    if any(cell.tunes for cell in cells):
        phase = "choosing learning rates"
    elif any(cell.cell.trains for cell in cells):
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
        tasks = [site.task_of_ranks(cell_id, function, folder, cell_id, reports=True) for cell_id in left]
        with closing(site.executor(tasks)) as events:
            for event in events:
                check_there(folder.root)
                match event:
                    case TaskProgress(key, of=0):
                        display.started(key)
                    case TaskProgress(key, phase_of_cell, done, of, loss):
                        display.progressed(key, phase_of_cell, done, of, loss)
                    case Ended(disk=OSError() as error):
                        raise error
                    case Ended():
                        _note_end(event, folder, is_final=not event.lost or not retries_left, display=display)
        left = {cell_id: cell for cell_id, cell in left.items() if folder.record(cell_id) is None}


def _note_end(event: Ended, folder: RunFolder, is_final: bool, display: Display) -> None:
    """Show how an attempt ended. One that left no record is noted in the cell's log; after the last, a record says so.

    None is written while a process still works on the cell. A retry waits for it: often its dying predecessor.
    """
    record = folder.record(event.key)
    if record is None and not event.failure:
        record = event.value  # a shared disk may show the file only later
        folder.write_record(event.value)
    if record is not None or (is_final and folder.is_taken(event.key)):
        display.ended(event.key, record.reason if record else "another process is still working on it")
        return
    if is_final:
        request, plan = folder.existing_request(event.key), folder.existing_plan()
        folder.write_record(initial_record(request, plan, reason=event.failure))
    display.ended(event.key, event.failure if is_final else f"{event.failure}; it will be retried")
    with open_plain(folder.cell(event.key) / "log", "a") as log:
        log.write(f"runner: {event.failure}\n")
