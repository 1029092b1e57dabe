"""The processes that train one cell together: each computes its own samples of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")
# Longer than anything that one rank does while the others wait. Who watches the processes ends a rank that hangs.
LONGEST_WAIT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Ranks:
    """The place of this process among those of its cell; by default it is alone.

    Args:
        objects: the group for objects and for long waits, which computes on no GPU; None: alone.
    """

    rank: int = 0
    size: int = 1
    objects: Any = None

    @classmethod
    def join(cls, device: torch.device) -> Self:
        """Join the processes that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT name; returns when all are there."""
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=LONGEST_WAIT)
        return cls(dist.get_rank(), dist.get_world_size(), dist.new_group(backend="gloo", timeout=LONGEST_WAIT))

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that evaluates and writes."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """Return which of `count` samples are this rank's: as many as the others' have, or one more or less."""
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of the ranks' values, on each of them."""
        if self.size == 1:
            return value
        total = value.clone()
        dist.all_reduce(total)
        return total

    def any(self, value: bool) -> bool:
        """Return whether it holds on any rank; computed on no GPU, so that none is waited for."""
        if self.size == 1:
            return value
        count = torch.tensor(int(value))
        dist.all_reduce(count, group=self.objects)
        return count.item() > 0

    def wait(self) -> None:
        """Wait until all ranks are here."""
        if self.size > 1:
            dist.barrier(self.objects)

    def told(self, value: T) -> T:
        """Return the first rank's value on each of them."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, group=self.objects)
        return values[0]

    def in_turn(self, own: Iterable[T], count: int) -> Iterator[T]:
        """Yield all `count` objects in order on the first rank, none on the others.

        Args:
            own: this rank's objects: every `size`-th, beginning with number `rank`.
        """
        if self.size == 1:
            yield from own
            return
        objects = iter(own)
        for begin in range(0, count, self.size):
            there: list[Any] | None = [None] * self.size if self.is_first else None
            dist.gather_object(next(objects, None), there, group=self.objects)
            yield from (there or [])[: count - begin]


ALONE = Ranks()
