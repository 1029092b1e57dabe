"""Guidance as one formula over two branches: D = D_weak + s (D_strong - D_weak), evaluated at each call.

A branch is the network under changed conditions: without its label, with tokens that bypass blocks, with other weights,
or without its middle blocks. Outputs are combined at one (x, t). A flow velocity, an EDM denoiser and the slope of the
probability flow are affine in the output at fixed (x, t), and the two factors, s and 1 - s, sum to 1, so combining any
of the four gives the same result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tread_bench.core.describe.routes import Route


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the two predictions that guidance combines.

    Args:
        name: name of its random stream.
        label: whether it is conditioned on the label or caption.
        routes: routes whose tokens bypass blocks, with the rate at the first step.
        decays: whether that rate falls to 0 over the steps, following half a cosine.
        other_weights: whether it uses the weights of the weak network instead of the evaluated network.
        drops_path: whether every token bypasses the blocks of `routes`; without routes, the method's own shallow path
            is used.
    """

    name: str
    label: bool = True
    routes: tuple[Route, ...] = ()
    decays: bool = False
    other_weights: bool = False
    drops_path: bool = False

    def routes_at(self, step: int, steps: int) -> tuple[Route, ...]:
        """Return the routes at step `step` (from 0) of `steps`, without routes at rate 0."""
        share = 0.0 if self.drops_path else self.share_at(step, steps)
        return tuple(route.at_share(share) for route in self.routes if route.rate * share)

    def share_at(self, step: int, steps: int) -> float:
        """Return the share of the rates at a step: (1 + cos(pi step / steps)) / 2 if they decay, else 1."""
        return (1 + math.cos(math.pi * step / steps)) / 2 if self.decays else 1.0

    @property
    def dropped_blocks(self) -> frozenset[int]:
        """Blocks that all tokens bypass."""
        if not self.drops_path:
            return frozenset()
        return frozenset(block for route in self.routes for block in range(int(route.start), int(route.end) + 1))
