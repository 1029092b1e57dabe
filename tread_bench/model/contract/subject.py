"""What the checks try a backbone on: a small network, inputs, routes, and walks through its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, product

import torch
from torch import Tensor

from tread_bench.core.families import SELECTORS, BackboneSpec, Family
from tread_bench.core.routes import ResolvedRoute, Route
from tread_bench.model.backbone import Backbone, TokenState, come_back, leave
from tread_bench.model.ops.selecting import select

BATCH = 3
RATES = (0.5, 0.75, 0.25)  # the first that a family accepts is used


@dataclass(frozen=True, slots=True)
class Case:
    """A route that the family accepts, with the tokens that a selector keeps."""

    route: ResolvedRoute
    selector: str
    ids: Tensor  # (B, K)

    def __str__(self) -> str:
        return f"route {self.route} ({self.selector})"


class Subject:
    """A family's network at one spec, with inputs and routes to try it on."""

    def __init__(
        self, family: Family, spec: BackboneSpec, kernels: Mapping[str, str] | None = None, device: str = "cpu"
    ) -> None:
        if spec.num_tokens < 4:
            raise ValueError(f"{spec.num_tokens} image tokens are too few to route: take a larger image_size")
        self.family = family
        self.spec = spec
        self.device = torch.device(device)
        self._generator = torch.Generator().manual_seed(0)
        self._kernels = kernels
        self.model = self.fresh().to(device).eval()
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.05 * self.normal(*parameter.shape))
        self.inputs = self.draw_inputs(BATCH)

    def fresh(self) -> Backbone:
        """The network with its initial weights."""
        return self.family.build(self.spec, self._kernels, seed=0)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._generator).to(self.device)

    def draw_inputs(self, batch: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """x (B, C, H, W), t (B,) and y: labels (B,), no label among them, or text features (B, M, E)."""
        size = self.spec.image_size
        classes = self.spec.num_classes
        text = self.spec.context_shape
        x = self.normal(batch, self.spec.channels, size, size)
        t = self.normal(batch).sigmoid()
        if text is not None:
            return x, t, self.normal(batch, *text)
        y = torch.tensor([classes, 0, classes - 1], device=self.device)[:batch] if classes else None
        return x, t, y

    def cases_at(self, *rates: float) -> Iterator[Case]:
        """A case for each start and end: at the first rate, with the first selector, that the family accepts."""
        for start, end in combinations_with_replacement(range(self.model.num_blocks), 2):
            for rate, selector in product(rates, SELECTORS):
                route = ResolvedRoute(start, end, rate)
                if self._accepts(route, selector):
                    yield Case(route, selector, self.draw_ids(route, selector))
                    break

    def draw_ids(self, route: Route, selector: str) -> Tensor:
        scores = torch.rand(BATCH, self.spec.num_tokens, generator=self._generator)
        return select(selector, scores, self.spec.grid, route.kept(self.spec.num_tokens)).to(self.device)

    def _accepts(self, route: Route, selector: str) -> bool:
        try:
            self.family.resolve(self.spec, [route], selector)
        except ValueError:
            return False
        return True

    @cached_property
    def cases(self) -> list[Case]:
        return list(self.cases_at(*RATES))

    @property
    def dense_and_longest(self) -> list[Case | None]:
        """No route, then the route over the most blocks."""
        return [None, *sorted(self.cases, key=lambda case: case.route.start - case.route.end)[:1]]

    def predict(self, case: Case | None = None) -> Tensor:
        """The dense prediction, or that under one route."""
        if case is None:
            return self.model(*self.inputs)
        return self.model(*self.inputs, routes=[case.route], selector=case.selector, ids=[case.ids])

    def start(self) -> TokenState:
        """The state before the first block."""
        return self.model.start(*self.inputs)

    def gradients(self, case: Case | None = None) -> dict[str, Tensor | None]:
        """By parameter name: gradients of a loss that weighs every output differently."""
        trainable = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        out = self.predict(case).float()
        weights = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)
        gradients = torch.autograd.grad((out * weights).sum(), list(trainable.values()), allow_unused=True)
        return dict(zip(trainable, gradients, strict=True))


@dataclass(frozen=True, slots=True)
class Step:
    """One call of run_block: the state it got, a copy of its streams as they were, and the state it gave."""

    block: int
    before: TokenState
    streams: Mapping[str, Tensor]
    after: TokenState


def steps(model: Backbone, state: TokenState, case: Case | None) -> Iterator[Step]:
    """The blocks one by one, dense or under a route."""
    for block in range(model.num_blocks):
        if case is not None and block == case.route.start:
            state = leave(state, case.ids)
        before = state
        streams = {name: stream.clone() for name, stream in state.streams.items()}
        state = model.run_block(block, state)
        yield Step(block, before, streams, state)
        if case is not None and block == case.route.end:
            state = come_back(state)
