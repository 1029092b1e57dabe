"""Numerical choices of a run, the measurement of its speed, and the limits of a cell."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tread_bench.core.config.base import Float, Int, Model


class Kernels(Model):
    """Formulations of the costly operations; `auto` is resolved once per run and written to plan.json."""

    # torch: on any device; math: batched products and a softmax, faster than sdpa on a CPU up to a few hundred tokens;
    # numba: compiled on a CPU; mamba_ssm, triton: kernels for CUDA. `auto` takes the last one that can be used.
    scan: Literal["auto", "torch", "numba", "mamba_ssm"] = "auto"
    wkv: Literal["auto", "torch", "numba", "triton"] = "auto"
    recurrence: Literal["auto", "torch", "numba"] = Field("auto", exclude_if=lambda name: name == "auto")
    attention: Literal["auto", "sdpa", "math"] = "auto"
    adaln: Literal["auto", "torch", "numba"] = "auto"


class StepOptions(Model):
    """How a training step is computed; evaluation uses none of these options."""

    autocast: Literal["none", "bfloat16", "float16"] = Field("none", description="type of the forward pass in training")
    compile: bool | Literal["network", "captured"] = Field(False, description="true: block by block")
    gradient_checkpointing: bool = Field(False, description="recompute blocks in the backward pass, to save memory")
    micro_batch: Int | None = Field(None, ge=1, description="images whose gradients are computed at a time; empty: all")
    data_workers: Int = Field(2, ge=0, description="processes that read and decode data; 0: as a step begins")


class Compute(StepOptions):
    """Numerical choices of a whole run, the same for every cell, on every worker and after resuming."""

    matmul_precision: Literal["auto", "highest", "high", "medium"] = Field("auto", description="of float32 products")
    threads: Int = Field(1, ge=1, description="threads of one cell; never derived from the number of workers")
    kernels: Kernels = Kernels()


def _none_or_some(pairs: int) -> int:
    if pairs == 1:
        raise ValueError("1 pair has no interval; time 2 or more, or 0 for no measurement")
    return pairs


class Timing(Model):
    """How speed is measured: alone, before training, interleaved with the dense reference."""

    pairs: Annotated[Int, AfterValidator(_none_or_some)] = Field(20, ge=0, description="of timed steps; 0: none")
    warmup: Int = Field(3, ge=1, description="steps of each that run first and are not timed")


class Limits(Model):
    """Resource limits of a cell, and what happens if it dies or hangs; none of these changes a figure."""

    retries: Int = Field(2, ge=0, description="how often a cell is resumed after its process was killed")
    processes_per_cell: Int = Field(1, ge=1, description="processes that train a cell, each on its share of a batch")
    gpus_per_cell: Int = Field(1, ge=1, description="GPUs that each process of a cell sees, with --device cuda")
    cell_minutes: Float | None = Field(None, gt=0, description="limit of an attempt at a cell or its speed; null: none")
    job_minutes: Float = Field(720, ge=1, description="time limit of a Slurm job; a longer cell goes on in a new one")
