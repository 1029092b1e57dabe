"""Numerical choices of a run, and how its speed is measured."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tread_bench.config.base import Int, Model


class Kernels(Model):
    """Formulations of the costly operations; `auto` is resolved once per run and written to plan.json."""

    scan: str = "auto"
    wkv: str = "auto"
    attention: str = "auto"


class Compute(Model):
    """Numerical choices of a whole run: the same for every cell, on every worker and on resume."""

    matmul_precision: Literal["auto", "highest", "high", "medium"] = "auto"
    autocast: Literal["none", "bfloat16"] = "none"
    threads: Int = Field(1, ge=1, description="threads of one cell; never derived from the number of workers")
    kernels: Kernels = Kernels()


def _none_or_some(pairs: int) -> int:
    if pairs == 1:
        raise ValueError("1 pair has no interval; time 2 or more, or 0 for no measurement")
    return pairs


class Timing(Model):
    """How speed is measured: alone, after training, interleaved with the dense reference."""

    pairs: Annotated[Int, AfterValidator(_none_or_some)] = Field(
        20, ge=0, description="pairs of timed steps, 2 or more; 0: speed and memory are not measured"
    )
    warmup: Int = Field(3, ge=1, description="steps of each that are not counted")
