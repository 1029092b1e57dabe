"""Speed and memory of training steps, measured alone, in processes that do nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import torch

from tread_bench.cell.open import Job
from tread_bench.cell.run import dense_twin, in_ranks, unscheduled
from tread_bench.cell.step import Trainer
from tread_bench.core.config.compute import Timing
from tread_bench.core.config.suite import Cell
from tread_bench.core.numbers.costs import cell_cost
from tread_bench.core.numbers.statistics import median_interval, paired_ratio
from tread_bench.core.stored.documents import MeasuredMemory, MeasuredSpeed
from tread_bench.core.stored.records import TimingFigures
from tread_bench.data.loader import BATCHES_PER_WORKER
from tread_bench.measure.speed.gpu_conditions import gpu_reader
from tread_bench.measure.speed.throughput import (
    LoopTime,
    host_share,
    interleave,
    peak_memory,
    probe_ms,
    product_macs_per_s,
    time_loop,
)
from tread_bench.runner.heartbeat import Tell

LOOP_STEPS = 20  # of the training loop that are timed, at most
PROFILED_STEPS = 3  # at most
PROFILED_MS = 1000  # that they take, about


class Steps:
    """Calls that each get the batch of the next training step ready, on the device, and return the step."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.done = 0

    def __call__(self) -> Callable[[], object]:
        batch = self.trainer.prepared(self.done).to(self.trainer.device)
        self.done += 1
        return partial(self.trainer.step, batch)


def measure_speed(root: Path, cell_id: str, processes: int) -> MeasuredSpeed:
    """Training steps of a cell beside those of the dense network that it is compared with; that one is its own twin, as
    a control.
    """
    measured: MeasuredSpeed = in_ranks("tread_bench.cell.speed:time_cell", root, cell_id, processes)
    return measured


def measure_memory(root: Path, cell_id: str, processes: int) -> MeasuredMemory:
    """Peak memory of a cell's training steps; of the dense steps where its schedule has some."""
    measured: MeasuredMemory = in_ranks("tread_bench.cell.speed:fill_memory", root, cell_id, processes)
    return measured


def time_cell(job: Job, tell: Tell) -> MeasuredSpeed:
    """As `measure_speed`, in one of the ranks; the first one's clock counts."""
    other = job.request.timed_with
    twin = dense_twin(Cell.model_validate(other) if other else job.cell)
    dense = job.trainer(twin, drawn=True)
    routed = job.trainer(unscheduled(job.cell), drawn=True)
    timing = time_pair(dense, routed, job.plan.timing)
    if other:
        macs = cell_cost(twin).dense_forward_macs
        named = {"reference_backbone": twin.backbone.label, "reference_forward_macs": macs}
        timing = timing.model_copy(update=named)
    return MeasuredSpeed(timing=timing, conditions=job.conditions)


def fill_memory(job: Job, tell: Tell) -> MeasuredMemory:
    """As `measure_memory`, in one of the ranks; the first one's memory counts."""
    trainer = job.trainer(drawn=True)
    trainer.compile(trainer.heaviest_step)
    with trainer.batches(count(trainer.heaviest_step)) as batches:
        peak, kind = peak_memory(lambda: trainer.step(next(batches)), job.device)
    return MeasuredMemory(peak_memory_mib=peak, memory_kind=kind, conditions=job.conditions)


def profiled_steps(pairs: int, step_ms: float) -> int:
    """Return how many steps run under the profiler: one or more, at most half as many as pairs, and about a second's
    worth.
    """
    return max(1, min(PROFILED_STEPS, pairs // 2, round(PROFILED_MS / step_ms)))


def time_pair(dense: Trainer, routed: Trainer, timing: Timing) -> TimingFigures:
    """Step times of `routed`, interleaved with those of `dense`; then where they go, and the loop of `routed` alone."""
    # The machine, by a fixed computation.
    probe = probe_ms(routed.device, routed.now)
    autocast = routed.options.autocast
    dtype = torch.float32 if autocast == "none" else getattr(torch, autocast)
    product = product_macs_per_s(routed.device, dtype, routed.now)

    # Steps in pairs, after a warm-up that is not timed.
    dense_steps = Steps(dense)
    routed_steps = Steps(routed)
    read_gpu = gpu_reader(routed.device)
    for trainer in (dense, routed):
        trainer.compile(0)
    interleave(dense_steps, routed_steps, pairs=0, warmup=timing.warmup)
    before = read_gpu()
    times = interleave(dense_steps, routed_steps, timing.pairs, warmup=0, now=routed.now)
    after = read_gpu()

    # How much of a step the host takes.
    steps = routed.ranks.told(profiled_steps(timing.pairs, median(times.reference_ms)))
    host = host_share(routed_steps, routed.device, steps)

    # The training loop, whose batches are made ahead.
    loop = _loop_time(routed, routed_steps.done, timing)

    # Medians with their intervals.
    middle, low, high = median_interval(times.subject_ms)
    speedup, speedup_low, speedup_high = paired_ratio(times.reference_ms, times.subject_ms)
    batch = routed.cell.training.batch
    return TimingFigures(
        step_time_ms=middle,
        step_time_low_ms=low,
        step_time_high_ms=high,
        images_per_s=batch / middle * 1e3,
        speedup=speedup,
        speedup_low=speedup_low,
        speedup_high=speedup_high,
        step_times_ms=times.subject_ms,
        reference_step_times_ms=times.reference_ms,
        loop_time_ms=loop.step_ms,
        data_wait_share=loop.data_wait_share,
        batch=batch,
        warmup=timing.warmup,
        compiled_instead=routed.compilation.instead,
        probe_ms=probe,
        product_macs_per_s=product,
        gpu_before=before,
        gpu_after=after,
        host_share=host,
    )


def _loop_time(trainer: Trainer, first: int, timing: Timing) -> LoopTime:
    """Speed of training from the step `first` on, with batches made ahead as when a cell is trained."""
    warmup = timing.warmup + BATCHES_PER_WORKER * trainer.options.data_workers
    with trainer.batches(count(first)) as batches:
        return time_loop(batches, trainer.step, min(timing.pairs, LOOP_STEPS), warmup, trainer.now)
