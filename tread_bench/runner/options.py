"""How and where a suite is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tread_bench.runner.shards import Shard


@dataclass(frozen=True, slots=True)
class Options:
    """No option changes a figure, except the device and numerics that are accepted.

    `device`: "auto" is the device that the run folder was started on and, in a new folder, CUDA where there is one.
    `rows`: names of the rows to run now, with those whose weights they read; none: all.
    `shard`: this runner trains and evaluates a part of the cells, beside runners of the other parts. Speed, which is
    measured alone, and the records that wait for it are left to a runner without a shard.
    """

    device: str = "cpu"
    rows: tuple[str, ...] = ()
    executor: str = "local"
    workers: int | None = None
    shard: Shard | None = None
    retry_failed: bool = False
    fresh: bool = False
    agreed: bool = False  # to what --fresh removes
    accept_other_numerics: bool = False
    track: Literal["tensorboard"] | None = None  # what gets the curves of cells while they train

    @property
    def runs_here(self) -> bool:
        """Whether cells run on this machine, and not where an executor places them."""
        return self.executor == "local"

    @property
    def begins_again(self) -> bool:
        """Whether the whole run starts afresh: what it was started with, and on, no longer counts."""
        return self.fresh and not self.rows
