"""Guidance as one rule of two branches: D = D_weak + s (D_strong - D_weak), branch by branch and call by call.

A branch is the network under other conditions: without its label, with tokens that bypass blocks, with other weights,
without its middle blocks. Outputs are combined at one (x, t); a flow velocity, an EDM denoiser and the slope of the
probability flow are affine in the output at fixed (x, t), and the two factors, s and 1 - s, add up to 1, so combining
any of the four gives the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tread_bench.core.routes import Route

if TYPE_CHECKING:
    from tread_bench.core.config.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the two predictions.

    Args:
        name: its stream of random numbers.
        label: whether it has the label.
        routes: blocks that a share of the tokens bypasses, with the rate at the first step.
        decays: that rate falls to 0 over the steps, as half a cosine.
        other_weights: those of the weak network, not of the judged one.
        drops_path: every token bypasses the blocks of `routes`; where there are none, the method's own shallow path.
    """

    name: str
    label: bool = True
    routes: tuple[Route, ...] = ()
    decays: bool = False
    other_weights: bool = False
    drops_path: bool = False

    def routes_at(self, step: int, steps: int) -> tuple[Route, ...]:
        """The routes of step `step` (from 0) of `steps`, those at rate 0 left out."""
        share = 0.0 if self.drops_path else self.share_at(step, steps)
        return tuple(route.at_share(share) for route in self.routes if route.rate * share)

    def share_at(self, step: int, steps: int) -> float:
        """Share of the rates that applies at a step: (1 + cos(pi step / steps)) / 2 where they decay."""
        return (1 + math.cos(math.pi * step / steps)) / 2 if self.decays else 1.0

    @property
    def dropped_blocks(self) -> frozenset[int]:
        """Blocks that no token passes."""
        if not self.drops_path:
            return frozenset()
        return frozenset(block for route in self.routes for block in range(int(route.start), int(route.end) + 1))


@dataclass(frozen=True, slots=True)
class Call:
    """One time at which a sampler asks for the velocity: in which step, and whether both branches are needed."""

    step: int
    guided: bool


def calls(sampling: Sampling, times: Sequence[float]) -> list[Call]:
    """What a sampler asks for, in order. A call at the end of a step, as Heun's second, belongs to the next one.

    Guidance applies where low < t <= high (Kynkäänniemi et al. 2024, eq. 6), t the time of the call; elsewhere, and at
    scale 1, the strong branch is the prediction.

    Args:
        times: of the sampler, steps + 1.
    """
    low, high = sampling.guidance.guided_times or (-math.inf, math.inf)
    is_guided = sampling.guidance_scale != 1
    return [
        Call(step + (time == after), is_guided and low < time <= high)
        for step, (now, after) in enumerate(pairwise(times))
        for time in sampling.sampler_family.call_times(now, after)
    ]
