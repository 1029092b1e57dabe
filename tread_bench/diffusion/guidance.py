"""Guidance while sampling: D = D_weak + s (D_strong - D_weak), for any two branches (`core/describe/guidance.py`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tread_bench.core.config.sampling import Sampling, calls
from tread_bench.core.describe.guidance import Branch
from tread_bench.model.backbone import Backbone
from tread_bench.model.methods.base import BatchRange, draw_kept
from tread_bench.model.network import Network

_WAY_OUT = "say, so that its costs and its guidance would be wrong: run the tests of docs/extending/sampler.md on it"


class Guided:
    """The guided prediction (x, t) -> (B, C or 2C, H, W) for one batch, called once for each call of its sampler.

    A call evaluates the network once if only the strong branch is needed, otherwise twice. Branches are combined in the
    network's output: the flow velocity, EDM's denoiser and DDPM's noise are affine in it, so the same rule holds for
    all. A learned variance is the strong branch's.

    Args:
        batch_range: the samples of the batch.
        y: their labels (B,) long, or their text (B, M, E), or None.
        weak: the network of the weak branch, if it has weights of its own.
        times: the sampler's times, steps + 1.
        empty_text: (M, E), what a branch without the label has where y is text.

    Raises:
        ValueError: a branch without a label for a model without labels, or a weak branch without its network.
        RuntimeError: on a call, if the sampler makes more calls than its description says.
    """

    def __init__(
        self,
        network: Network,
        sampling: Sampling,
        times: Sequence[float],
        batch_range: BatchRange,
        y: Tensor | None,
        weak: Network | None = None,
        empty_text: Tensor | None = None,
    ) -> None:
        self.network = network
        self.weak_network = weak
        self.sampling = sampling
        self.batch_range = batch_range
        self.y = y
        self.empty_text = empty_text
        self.calls = iter(calls(sampling, times))
        self.strong, self.weak = sampling.guidance.branches
        for branch in filter(None, (self.strong, self.weak)):
            self._check(branch)

    def __call__(self, x: Tensor, t: Tensor) -> Tensor:
        call = next(self.calls, None)
        if call is None:
            raise RuntimeError(f"sampler {self.sampling.sampler} makes more calls than its call_times {_WAY_OUT}")
        strong = self._predict(self.strong, call.step, x, t)
        if not call.guided or self.weak is None:
            return strong
        weak = self._predict(self.weak, call.step, x, t)
        channels = x.shape[1]
        guided = torch.lerp(weak[:, :channels], strong[:, :channels], self.sampling.guidance_scale)
        return torch.cat([guided, strong[:, channels:]], dim=1)

    def check_complete(self) -> None:
        """Raise RuntimeError if the sampler has made fewer calls than its description says."""
        if next(self.calls, None) is not None:
            raise RuntimeError(f"sampler {self.sampling.sampler} makes fewer calls than its call_times {_WAY_OUT}")

    def _predict(self, branch: Branch, step: int, x: Tensor, t: Tensor) -> Tensor:
        network = self.weak_network if branch.other_weights and self.weak_network else self.network
        backbone = network.backbone
        y = self._label(branch)

        # A branch that leaves out blocks, or SPRINT's deep path.
        if branch.dropped_blocks:
            return without_blocks(backbone, x, t, y, branch.dropped_blocks)
        if branch.drops_path:
            return network.method.shallow_forward(backbone, backbone.start(x, t, y))

        # A branch that routes tokens, or the plain one.
        routes = branch.routes_at(step, self.sampling.steps)
        if not routes:
            return network(x, t, y)
        selector = network.method.selector
        ids = []
        for route in routes:  # the stream is the same for any rate: as a rate decays, tokens return one by one
            stream = f"sampling route {route.start}:{route.end} {selector} {branch.name} {step}"
            ids.append(draw_kept(stream, self.batch_range, route, selector, backbone.spec, x.device))
        return backbone(x, t, y, routes=routes, selector=selector, ids=ids)

    def _label(self, branch: Branch) -> Tensor | None:
        if branch.label or self.y is None:
            return self.y
        if self.network.spec.context_shape is None:
            return torch.full_like(self.y, self.network.spec.num_classes)
        assert self.empty_text is not None, "text was given without the empty text"
        return self.empty_text.expand_as(self.y)

    def _check(self, branch: Branch) -> None:
        if not branch.label and self.y is None:
            raise ValueError("this guidance leaves out the label; this model has none (num_classes=0): choose another")
        if branch.other_weights and self.weak_network is None:
            raise ValueError("this guidance reads other weights for its weak branch: pass their network as `weak`")


def without_blocks(backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None, dropped: frozenset[int]) -> Tensor:
    """Return the dense prediction (B, C, H, W) without the blocks in `dropped`."""
    state = backbone.start(x, t, y)
    for block in range(backbone.num_blocks):
        if block not in dropped:
            state = backbone.run_block(block, state)
    return backbone.finish(state)
