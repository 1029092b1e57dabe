"""Speed and memory of a row, measured alone, in a process that does nothing else."""

from __future__ import annotations

import statistics as python_statistics
from pathlib import Path
from typing import Any

import torch

from tread_bench.cell import Job
from tread_bench.config import Timing
from tread_bench.measure.memory import peak_memory
from tread_bench.measure.throughput import interleave
from tread_bench.records import TimingFigures
from tread_bench.statistics import median_interval, paired_ratio
from tread_bench.training.step import Trainer


class Steps:
    """Calls that each make the next training step."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.done = trainer, 0

    def __call__(self) -> None:
        self.trainer.step(self.done)
        self.done += 1


def measure_speed(root: Path, cell_id: str, reference_id: str) -> dict[str, Any]:
    """Training steps of a cell beside those of its dense reference (itself, for a dense one: the control)."""
    job, reference = Job.open(root, cell_id), Job.open(root, reference_id)
    timing = Timing.model_validate(job.plan["timing"])
    device = job.device
    times = interleave(
        Steps(reference.trainer()),
        Steps(job.trainer()),
        timing.pairs,
        timing.warmup,
        torch.cuda.synchronize if device.type == "cuda" else lambda: None,
    )
    _, low, high = median_interval(times.subject_ms)
    speedup, speedup_low, speedup_high = paired_ratio(times.reference_ms, times.subject_ms)
    median = python_statistics.median(times.subject_ms)
    figures = TimingFigures(
        step_time_ms=median,
        step_time_low_ms=low,
        step_time_high_ms=high,
        images_per_s=job.cell.training.batch / median * 1e3,
        speedup=speedup,
        speedup_low=speedup_low,
        speedup_high=speedup_high,
        step_times_ms=times.subject_ms,
        reference_step_times_ms=times.reference_ms,
        batch=job.cell.training.batch,
        warmup=timing.warmup,
    )
    return figures.model_dump(mode="json")


def measure_memory(root: Path, cell_id: str) -> dict[str, Any]:
    """Peak memory of a cell's training steps."""
    job = Job.open(root, cell_id)
    peak, kind = peak_memory(job.trainer().step, job.device)
    return {"peak_memory_mib": peak, "memory_kind": kind}
