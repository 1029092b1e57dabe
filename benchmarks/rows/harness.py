"""What the harness costs beside the work: commands, the training loop, a cell, and waiting for data."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from unittest.mock import patch

import torch

from benchmarks.figure import Figure
from benchmarks.processes import cpu_seconds, tread_bench, wall_seconds
from benchmarks.row import row
from benchmarks.rows.training import Training, embedded, steps_of, trainer_of
from benchmarks.timing import Bench, always
from tread_bench.cell.loop import Origin, train
from tread_bench.cell.numerics import resolve_choices
from tread_bench.cell.step import Batch, Stored, Trainer
from tread_bench.core.config.compute import Compute
from tread_bench.core.config.suite import Cell
from tread_bench.core.numbers.statistics import median_interval
from tread_bench.core.stored.documents import CellRequest, RunPlan, initial_record
from tread_bench.core.stored.records import Evaluation, Record
from tread_bench.data.source import open_data
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure.evaluation import Evaluator
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.prepare import write_plan
from tread_bench.suite.load import load_plan

SEEDS = 20  # of each of 100 rows in a large run
LOOP_STEPS = 500  # of a training that does nothing: as many as between two checkpoints
FEW_SEEDS, MANY_SEEDS = 2, 8

BRIEF = {  # a cell of little work
    "backbone": {"name": "DiT", "depth": 4, "hidden": 32, "heads": 2, "patch": 2},
    "data": "digits",
    "training": {"iterations": 20, "batch": 8},
    "sampling": {"steps": 2},
    "metrics": {"num_samples": 64, "validation_samples": 32, "kid_subset_size": 32, "similarity_samples": 8},
}


def measured(samples: list[float], unit: str) -> Figure:
    """A median and its interval."""
    return Figure(*median_interval(samples), samples={unit: samples})


# Commands


@row("harness/help", unit="s", required=0.5, is_cost=True)
def help_time(bench: Bench) -> Figure:
    """CPU seconds of `tread-bench --help`, from the start of its process to its end."""
    return measured([cpu_seconds(tread_bench("--help")) for _ in range(8)][1:], "seconds")


@row("harness/plan", unit="s", required=2, is_cost=True)
def plan_time(bench: Bench) -> Figure:
    """CPU seconds of `tread-bench plan` for a suite of 10,000 cells: 100 rows of 100 seeds."""
    with tempfile.TemporaryDirectory() as folder:
        suite = large_suite(Path(folder), seeds=100)
        return measured([cpu_seconds(tread_bench("plan", suite, "--json")) for _ in range(3)], "seconds")


@row("harness/status", unit="ms per cell", required=1, is_cost=True)
def status_time(bench: Bench) -> Figure:
    """CPU time of `tread-bench status` for a finished run of 2,000 cells, 100 rows of 20 seeds, over its cells."""
    return per_cell("status", repeats=3)


@row("harness/report", unit="ms per cell", required=5, is_cost=True)
def report_time(bench: Bench) -> Figure:
    """CPU time of `tread-bench report` for a finished run of 2,000 cells, 100 rows of 20 seeds, over its cells."""
    return per_cell("report", repeats=2)


def per_cell(command: str, repeats: int) -> Figure:
    """CPU milliseconds of a command on a large run, by cell."""
    with tempfile.TemporaryDirectory() as folder:
        root, cells = large_run(Path(folder))
        return measured([cpu_seconds(tread_bench(command, root)) * 1e3 / cells for _ in range(repeats)], "ms")


def large_suite(folder: Path, seeds: int) -> Path:
    """100 rows: ten routes by ten learning rates."""
    routes = [f"{start}:{end}@0.5" for start in (0, 1) for end in (1, 2, 3)] + [
        f"{start}:{start + 1}@0.{rate}" for start in (0, 1) for rate in (25, 75)
    ]
    matrix = {"training.learning_rate": [k * 1e-4 for k in range(1, 11)], "routes": routes}
    suite = {"name": "large", "seeds": seeds, "base": {**BRIEF, "method": "tread"}, "matrix": matrix}
    path = folder / "large.yaml"
    path.write_text(json.dumps(suite))
    return path


def large_run(folder: Path) -> tuple[Path, int]:
    """A run folder in which every cell has the figures of one that was run, and how many there are."""
    # One cell, really run.
    brief_suite(folder, seeds=1)
    cpu_seconds(tread_bench("run", folder / "brief.yaml", "--out", folder / "brief"))
    brief = RunFolder(folder / "brief")
    (found,) = brief.records(brief.existing_plan().references)

    # The plan of many, and their records. Nothing of it must outlive this process, so nothing waits for the disk.
    source = large_suite(folder, SEEDS)
    plan = load_plan(source)
    run = RunFolder(folder / "large")
    run.root.mkdir()
    with patch("os.fsync"):
        write_plan(plan, plan.cells, source.read_text(), run, resolve_choices(plan.suite.compute, "cpu"))
    document = run.existing_plan()
    for cells in plan.rows.values():
        record = as_if_run(run.existing_request(cells[0].id), document, found)
        for cell in cells:
            own = record.model_copy(update={"cell": cell.id, "seed": cell.seed})
            (run.cell(cell.id) / "record.json").write_text(own.model_dump_json(indent=1) + "\n")
    return run.root, len(plan.cells)


def as_if_run(request: CellRequest, plan: RunPlan, found: Record) -> Record:
    """The record of a cell with another cell's figures."""
    record = initial_record(request, plan)
    requested = {name: getattr(record, name) for name in Record.model_fields if name not in FIGURES}
    return found.model_copy(update=requested)


FIGURES = (
    *("status", "reason", "cost", "timing", "evaluations", "similarity", "gradient_norms", "train_loss"),
    *("train_seconds", "data_wait_seconds", "weights", "sampling_macs"),
    *("initial_weights_sha256", "final_weights_sha256"),
)


# The training loop


@row("harness/step", unit="%", required=1, is_cost=True)
def loop_overhead(bench: Bench) -> Figure:
    """What the training loop adds to a step of the embedded study, as a share of the step: 500 iterations of training
    with the step and the drawing of batches taken out, its checkpoint included, in turn with bare steps.
    """
    training = embedded().on(bench.threads)
    steps = steps_of(trainer_of(training.dense, training.compute), training.compute)
    steps()()
    idle = idle_trainer(training)
    with tempfile.TemporaryDirectory() as folder:
        numbers = count()

        def loop() -> object:
            place = Path(folder) / str(next(numbers))
            place.mkdir()
            return train(idle, place, Origin("benchmark"), no_evaluation)

        loop()
        figure = bench.faster(always(loop), steps, facts={"loop_steps": LOOP_STEPS})  # the loop's time over a step's
    return figure.times(100 / LOOP_STEPS)


def idle_trainer(training: Training) -> Trainer:
    """A trainer with the state of one step, whose further steps and batches cost nothing."""
    settings = training.dense.training.model_copy(update={"iterations": LOOP_STEPS, "checkpoint_every": LOOP_STEPS})
    metrics = training.dense.metrics.model_copy(update={"at": (LOOP_STEPS,)})
    cell = training.dense.model_copy(update={"training": settings, "metrics": metrics})
    trainer = trainer_of(cell, training.compute)
    batch = trainer.batch(0)
    loss = trainer.step(batch)

    def same_batch(step: int) -> Batch:
        return batch

    def no_step(batch: Stored) -> torch.Tensor:
        return loss

    trainer.prepared = same_batch  # type: ignore[method-assign]
    trainer.step = no_step  # type: ignore[method-assign]
    return trainer


def no_evaluation(trainer: Trainer, iteration: int, seconds: float) -> Evaluation:
    return Evaluation(iteration=iteration, train_seconds=seconds, validation_loss=0, validation_loss_per_time={})


# A cell


@row("harness/cell", unit="s", required=0.5, is_cost=True)
def cell_overhead(bench: Bench) -> Figure:
    """Wall seconds that a cell of a run takes beyond its training steps and its evaluation, from runs of one row with 8
    seeds and with 2, one cell at a time; the same steps and evaluation are timed in this process.
    """
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        work = cell_work(Path(folder))
        work()
        for number in range(3):
            began = bench.wall()
            work()
            bare = bench.wall() - began
            runs = []
            for seeds in (FEW_SEEDS, MANY_SEEDS) if number % 2 == 0 else (MANY_SEEDS, FEW_SEEDS):
                suite = brief_suite(Path(folder), seeds)
                out = Path(folder) / f"run-{number}-{seeds}"
                runs.append((seeds, wall_seconds(tread_bench("run", suite, "--out", out, "--workers", 1))))
            (few, few_s), (many, many_s) = sorted(runs)
            seconds.append((many_s - few_s) / (many - few) - bare)
    return measured(seconds, "seconds")


def brief_suite(folder: Path, seeds: int) -> Path:
    """One dense row of little work."""
    suite = {"name": "brief", "seeds": seeds, "base": BRIEF, "rows": {"dense": {}}, "timing": {"pairs": 2, "warmup": 1}}
    path = folder / "brief.yaml"
    path.write_text(json.dumps(suite))
    return path


def cell_work(folder: Path) -> Callable[[], None]:
    """The training steps and the evaluation of a cell of `brief_suite`."""
    cell = Cell.model_validate(BRIEF)
    trainer = trainer_of(cell, Compute())
    evaluator = Evaluator(cell, open_data(cell.data), build_objective(cell.objective), folder)
    steps = cell.training.iterations

    def work() -> None:
        for step in range(steps):
            trainer.step(trainer.batch(step))
        evaluator(trainer.average, steps, 0.0, 0, lambda: None)

    return work
