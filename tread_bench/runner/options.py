"""How and where a suite is run."""

from __future__ import annotations

from dataclasses import dataclass

from tread_bench.runner.shards import Shard


@dataclass(frozen=True, slots=True)
class Options:
    """None of it changes a figure, but for numerics that are accepted.

    `shard`: this runner trains and judges a part of the cells, beside runners of the other parts; speed, which is
    measured alone, and the records that wait for it are left to a runner without one.
    """

    device: str = "cpu"
    executor: str = "local"
    workers: int | None = None
    shard: Shard | None = None
    retry_failed: bool = False
    fresh: bool = False
    agreed: bool = False  # to what --fresh forgets
    accept_other_numerics: bool = False
