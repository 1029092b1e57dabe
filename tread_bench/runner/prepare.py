"""Before the first cell of a run: numerical choices, refusals, free space, and what each cell's process reads."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tread_bench.core.config.compute import Limits
from tread_bench.core.config.suite import files_of
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.numbers.costs import cell_cost
from tread_bench.core.problems import shortened
from tread_bench.core.stored.conditions import differences
from tread_bench.core.stored.data_files import check_unchanged, contents_of, unread_bytes
from tread_bench.core.stored.documents import CellRequest, Choices, GitState, RunPlan, SuiteAbout
from tread_bench.core.stored.files import StoreError, write_atomically, write_document
from tread_bench.core.stored.records import DataFile
from tread_bench.runner.executors.local import Local
from tread_bench.runner.executors.ray import Ray
from tread_bench.runner.executors.slurm import Slurm
from tread_bench.runner.executors.tasks import Executor, Site, Task
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.items import tunings
from tread_bench.runner.options import Call
from tread_bench.runner.speed import is_compared_at_equal_time
from tread_bench.suite.plan import CHECKPOINTS_KEPT, Plan, PlannedCell, checkpoint_bytes, disk_bytes

MIB = 2**20
_LONG_BYTES = 2**33  # to read at a run's start, from which on that is said


def executor_named(name: str, workers: int | None, root: Path, limits: Limits) -> Executor:
    """`local`, `ray` or `slurm`; the latter keeps its jobs' files in the run folder `root`."""
    if name == "slurm":
        return Slurm(root / "slurm", workers, limits.job_minutes)
    return Ray(workers) if name == "ray" else Local(workers)


def prepare(
    plan: Plan, untrained: Sequence[PlannedCell], before: RunPlan | None, call: Call
) -> tuple[Site, Choices, dict[str, DataFile]]:
    """Check everything that can refuse a run, and change nothing.

    Args:
        before: plan.json of the run that goes on; None: a run begins.

    Returns:
        where its cells run, under which choices, and the files that they read.

    Raises:
        StoreError: other numerical choices, data that cannot be used, a full disk.
        ChangedDataError: a file that a cell is about to read has changed.
    """
    folder, options, display = call.folder, call.options, call.display
    limits, threads = plan.suite.limits, plan.suite.compute.threads
    executor = executor_named(options.executor, options.workers, folder.root, limits)
    files = data_files(untrained, before, display.note)

    # Numerical choices, made on a machine that will run cells, which may have to wait for one.
    device = before.numerics.device if before and options.device == "auto" else options.device
    uses_gpus = device == "cuda" or (device == "auto" and executor.may_have_gpus())
    site = Site(executor, limits, threads, limits.gpus_per_cell if uses_gpus else 0)
    if not options.runs_here:
        display.note(f"waiting for a machine of {options.executor}, which makes the numerical choices")
    found = resolve_choices(plan, untrained, device, site, call)
    choices = agreed(found, before, plan, call)
    numerics = choices.numerics
    if options.device == "auto":
        why = "" if device == "auto" else f", on which {folder.root} was started"
        display.note(f"device: {numerics.device} ({numerics.device_name}){why}")

    # As many cells at a time as fit there, and room for what they write.
    if isinstance(executor, Local):
        executor = executor.sized(numerics, limits.processes_per_cell)
    need, free = needed_bytes(untrained, folder, executor.at_once), shutil.disk_usage(folder.root).free
    if need > free:
        raise StoreError(
            f"{folder.root}: the {len(untrained)} cells to train may need another {need / MIB:,.0f} MiB and only "
            f"{free / MIB:,.0f} MiB are free: free some (`tread-bench clean RUN_DIR` removes checkpoints of finished "
            "cells), or give an --out on another disk"
        )
    gpus = limits.gpus_per_cell if numerics.device == "cuda" else 0
    return Site(executor, limits, threads, gpus), choices, dict(sorted(files.items()))


def resolve_choices(plan: Plan, untrained: Iterable[PlannedCell], device: str, site: Site, call: Call) -> Choices:
    """Return the numerical choices and versions of a machine where cells will run.

    Raises:
        StoreError: they are not available there, data of the `untrained` cells cannot be used there, or the run folder
            cannot be seen there.
    """
    # The data that cells read, each once, with whether samples are generated; random ones need not have every class.
    data: dict[str, tuple[DataOptions, bool]] = {}
    for planned in () if plan.is_smoke else untrained:
        key = planned.cell.data.model_dump_json()
        _, generates = data.get(key, (planned.cell.data, False))
        data[key] = planned.cell.data, generates or planned.cell.generates

    # Every sample is read there, unless this machine has.
    root = call.folder.root
    log = root / ".numerics.log"
    log.unlink(missing_ok=True)
    arguments = (plan.suite.compute, device, [*data.values()], not call.options.runs_here)
    function = "tread_bench.cell.numerics:resolve_choices"
    end = site.end_of(Task("numerics", function, arguments, log, cpus=site.cpus, gpus=site.gpus))
    if end.failure:
        raise StoreError(end.failure)
    if not log.exists():
        rule = "is not the same folder on the executor's machines: give an --out that all machines share"
        raise StoreError(f"{root} {rule}")
    found: Choices = end.value
    return found


def agreed(found: Choices, before: RunPlan | None, plan: Plan, call: Call) -> Choices:
    """Return the run's choices, for plan.json: those that a machine has, if they agree with those of the run's start.

    Parts of a run have the choices of the one that started it, and each record names the machine that made it.

    Raises:
        StoreError: the run was started under other choices, and they are not accepted; or a part is not of that run.
    """
    root, options = call.folder.root, call.options
    changed = differences(before.conditions, found.conditions) if before is not None else []
    if changed and not options.accept_other_numerics:
        raise StoreError(
            f"{root} was started under other numerical choices ({'; '.join(changed)}), so its cells would not "
            "compare: give another --out, or --accept-other-numerics to continue and have every record say so"
        )
    accepts = options.accept_other_numerics
    if before is None or options.shard is None:
        return found.model_copy(update={"accept_other_numerics": accepts, "track": options.track})

    # A part takes the choices of its run; parts may add cells and not remove any.
    absent = set(before.cells) - references(plan).keys()
    if absent:
        raise StoreError(
            f"{root} has {len(before.cells)} cells, {len(absent)} of which are not in this suite "
            f"(such as {min(absent)}): give every shard the same suite and --set, or another --out"
        )
    if (begun := before.numerics.device) != found.numerics.device:
        raise StoreError(f"{root} was started with --device {begun}: give all shards the same --device")
    numerics = before.numerics.model_copy(update={"device_count": found.numerics.device_count})
    accepts = accepts or before.accept_other_numerics
    return Choices(numerics=numerics, versions=before.versions, accept_other_numerics=accepts, track=options.track)


def refuse_other_hypothesis(plan: Plan, folder: RunFolder) -> None:
    """Raises StoreError where the run was started under another hypothesis than the suite states now."""
    before = folder.plan()
    if before is None or before.registered == plan.registered:
        return
    stated = []
    for one in (before.registered, plan.registered):
        stated.append(f"hypothesis {one.sha256[:10]} ({shortened(one.hypothesis.claim)})" if one else "no hypothesis")
    raise StoreError(
        f"{folder.root} was started under {stated[0]}, and the suite now states {stated[1]}: what is stated after a "
        "run has begun was not decided before it. Restore it, or give another --out"
    )


def write_plan(
    plan: Plan,
    missing: Sequence[PlannedCell],
    source: str,
    folder: RunFolder,
    choices: Choices,
    before: RunPlan | None = None,
    files: Mapping[str, DataFile] | None = None,
    forgotten: Collection[str] = (),
) -> None:
    """Write plan.json, suite.yaml, and a cell.json for every missing cell.

    A run that goes on keeps of its plan `before` when it was started first, and where its cells are evaluated at equal
    time, but for those that are `forgotten`.
    """
    started = before.started if before else datetime.now(UTC).isoformat(timespec="seconds")
    equal_time = before.equal_time if before else {}

    # The run, by which the folder is known from then on, the suite as it was read, and each missing cell.
    document = RunPlan(
        **dict(choices),
        suite=SuiteAbout(name=plan.suite.name, description=plan.suite.description),
        smoke=plan.is_smoke,
        stand_ins=list(plan.stand_ins),
        timing=plan.suite.timing,
        cells=[*references(plan)],
        references=references(plan),
        rows={cell.id: (cell.row, cell.seed) for cell in plan.all_cells},
        started=started,
        git=git_state(),
        hardware={"cpus": os.cpu_count(), "memory_mib": psutil.virtual_memory().total // MIB},
        files=dict(files or {}),
        equal_time={c.id: equal_time[c.id] for c in plan.cells if c.id in equal_time and c.id not in forgotten},
        tuning=tunings(plan, folder),
        pending=plan.pending,
        registered=plan.registered,
    )
    write_document(folder.plan_path, document)
    write_atomically(folder.root / "suite.yaml", source)
    for cell in missing:
        timed_with = plan.timed_with(cell)
        request = CellRequest(
            cell=cell.id,
            suite=plan.suite.name,
            row=cell.row,
            seed=cell.seed,
            role="tuning" if cell.tunes else "study",
            reference=cell.reference,
            backbone=cell.cell.backbone.label,
            config=cell.cell.model_dump(mode="json"),
            sources=dict(cell.sources),
            timed_with=timed_with.cell.model_dump(mode="json") if timed_with else None,
        )
        write_document(folder.made(cell.id) / "cell.json", request)


def references(plan: Plan) -> dict[str, str]:
    """Return each cell and the dense cell it is compared with, as the suite has it now."""
    return {cell.id: cell.reference for cell in plan.all_cells}


def data_files(
    untrained: Iterable[PlannedCell], before: RunPlan | None, note: Callable[[str], None]
) -> dict[str, DataFile]:
    """Return the files that the run's cells read, by path, as they were when the run started; unread ones as they are
    now.

    Raises:
        ChangedDataError: a file that a cell is about to read has changed.
    """
    known = before.files if before else {}
    paths = {path for cell in untrained for _, path in files_of(cell.cell)}
    if (unread := unread_bytes(paths)) > _LONG_BYTES:
        note(f"reading {unread / 2**30:,.0f} GiB of data files once, so that a later change is noticed")
    now = contents_of(paths)
    check_unchanged(known, now, "the run began")
    return {**known, **now}


def needed_bytes(untrained: Sequence[PlannedCell], folder: RunFolder, workers: int | None) -> int:
    """Bytes that the cells may still write, and what those that run at the time have besides.

    Each has another checkpoint that is being written; one that is trained to equal time keeps those of that training as
    well.

    Args:
        workers: how many write at a time, the largest ones in the worst case; None: all.
    """
    by_row = {cell.row_key: cell for cell in untrained}
    params = {key: cell_cost(cell.cell).stored_params for key, cell in by_row.items()}
    missing, running = 0, []
    for cell in untrained:
        there = sum(path.stat().st_size for path in folder.cell(cell.id).rglob("*") if path.is_file())
        missing += max(0, disk_bytes(cell, params[cell.row_key]) - there)
        checkpoints = 1 + CHECKPOINTS_KEPT if is_compared_at_equal_time(cell.cell) else 1
        running.append(checkpoints * checkpoint_bytes(params[cell.row_key]))
    return missing + sum(sorted(running, reverse=True)[:workers])


def git_state() -> GitState | None:
    """Commit of this program's checkout, its date, and whether it was changed; None for an installed copy.

    An environment is often inside some other checkout, so what counts is whether git tracks this very file.
    """

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        commit, committed = git("show", "--no-patch", "--format=%H %cI", "HEAD").split()
        return GitState(commit=commit, committed=committed, changed=bool(git("status", "--porcelain").strip()))
    except (OSError, subprocess.CalledProcessError):
        return None
