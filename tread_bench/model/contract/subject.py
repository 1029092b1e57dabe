"""What the checks try a backbone on: a small network, inputs, routes, and runs through its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement, product

import torch
from torch import Tensor, nn

from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.routes import ResolvedRoute, Route
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR, selectors
from tread_bench.model.backbone import Backbone, Skip, TokenState, build_backbone, come_back, leave
from tread_bench.model.ops.selecting import select

Inputs = tuple[Tensor, Tensor, Tensor | None]  # x, t and y

BATCH = 3
RATES = (0.5, 0.75, 0.25)  # the first one that a family accepts is used


@dataclass(frozen=True, slots=True)
class Case:
    """A route that the family accepts, with the kept tokens of a selector."""

    route: ResolvedRoute
    selector: str
    ids: Tensor  # (B, K)

    def __str__(self) -> str:
        return f"route {self.route} ({self.selector})"


@torch.no_grad()
def move_weights(module: nn.Module, generator: torch.Generator) -> None:
    """Move weights away from their values, so that a layer that starts at zero hides nothing."""
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator).to(parameter.device))


def accepts(family: Family, spec: BackboneSpec, routes: Sequence[Route], selector: str) -> bool:
    """Return whether the family accepts the selector with these routes."""
    try:
        family.resolve(spec, routes, selector)
    except ValueError:
        return False
    return True


class Trial:
    """A network with inputs and routes to try it on.

    Args:
        inputs: x, t and y; `Subject` draws its own.
    """

    inputs: Inputs

    def __init__(self, model: Backbone, device: torch.device) -> None:
        self.model = model
        self.device = device
        self.generator = torch.Generator().manual_seed(0)

    @cached_property
    def grid(self) -> tuple[int, int]:
        return self.start().grid

    @property
    def num_tokens(self) -> int:
        return self.grid[0] * self.grid[1]

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator).to(self.device)

    def others(self) -> Inputs:
        """Return another batch of the same shapes."""
        x, t, y = self.inputs
        return -x, t.roll(1), None if y is None else y.roll(1, 0)

    def spans(self) -> Iterable[tuple[int, int]]:
        """Return the first and last block of each route to try."""
        return combinations_with_replacement(range(self.model.num_blocks), 2)

    def cases_at(self, *rates: float) -> Iterator[Case]:
        """Yield a case for each span, with the first rate and the first selector that the family accepts."""
        for start, end in self.spans():
            for rate, selector in product(rates, (DEFAULT_SELECTOR, *selectors())):
                route = ResolvedRoute(start, end, rate)
                if accepts(self.model.family, self.model.spec, [route], selector):
                    yield Case(route, selector, self.draw_ids(route, selector))
                    break

    def draw_ids(self, route: Route, selector: str) -> Tensor:
        scores = torch.rand(len(self.inputs[0]), self.num_tokens, generator=self.generator)
        return select(selector, scores, self.grid, route.kept(self.num_tokens)).to(self.device)

    def shuffled(self, ids_BK: Tensor) -> Tensor:
        """Return the same ids in an order that does not ascend; unlike a reversal, it separates neighbours."""
        order = torch.randperm(ids_BK.shape[1], generator=self.generator)
        return ids_BK[:, order if (order.diff() < 0).any() else order.flip(0)]

    @cached_property
    def cases(self) -> list[Case]:
        return list(self.cases_at(*RATES))

    @property
    def dense_and_longest(self) -> list[Case | None]:
        """Return no route, then the route over the most blocks."""
        return [None, *sorted(self.cases, key=lambda case: case.route.start - case.route.end)[:1]]

    def predict(self, case: Case | None = None, inputs: Inputs | None = None) -> Tensor:
        """Return the prediction, dense or under one route; of other `inputs` if given."""
        inputs = inputs or self.inputs
        if case is None:
            return self.model(*inputs)
        return self.model(*inputs, routes=[case.route], selector=case.selector, ids=[case.ids])

    def start(self) -> TokenState:
        """Return the state before the first block."""
        return self.model.start(*self.inputs)

    def gradients(self, case: Case | None = None) -> dict[str, Tensor | None]:
        """Return gradients by parameter name, of a loss that weights every output differently."""
        return self.gradients_of(self.predict(case))

    def gradients_of(self, prediction: Tensor) -> dict[str, Tensor | None]:
        """Return the gradients of a given prediction by the network's parameters."""
        trainable = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        out = prediction.float()
        weights = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)
        gradients = torch.autograd.grad((out * weights).sum(), list(trainable.values()), allow_unused=True)
        return dict(zip(trainable, gradients, strict=True))


class Subject(Trial):
    """A family's network for one spec, with inputs and routes to try it on."""

    def __init__(
        self, family: Family, spec: BackboneSpec, kernels: Mapping[str, str] | None = None, device: str = "cpu"
    ) -> None:
        if spec.num_tokens < 4:
            raise ValueError(f"{spec.num_tokens} image tokens are too few to route: take a larger image_size")
        self.family = family
        self.spec = spec
        self._kernels = kernels
        super().__init__(self.fresh().to(device).eval(), torch.device(device))
        move_weights(self.model, self.generator)
        self.inputs = self.draw_inputs(BATCH)

    def fresh(self) -> Backbone:
        """Return the network with its initial weights."""
        return build_backbone(self.family, self.spec, self._kernels, seed=0)

    def draw_inputs(self, batch: int) -> Inputs:
        """Draw x (B, C, H, W), t (B,) and y: labels (B,), including "no label", or text features (B, M, E)."""
        size = self.spec.image_size
        classes = self.spec.num_classes
        text = self.spec.context_shape
        x = self.normal(batch, self.spec.channels, size, size)
        t = self.normal(batch).sigmoid()
        if text is not None:
            return x, t, self.normal(batch, *text)
        y = torch.tensor([classes, 0, classes - 1], device=self.device)[:batch] if classes else None
        return x, t, y


@dataclass(frozen=True, slots=True)
class Step:
    """One call of run_block: the state it received, copies of what that state held, and the state it returned."""

    block: int
    before: TokenState
    streams: Mapping[str, Tensor]
    background: Mapping[str, Tensor]
    after: TokenState


def steps(model: Backbone, state: TokenState, case: Case | None) -> Iterator[Step]:
    """Yield the blocks one by one, dense or under a route."""
    for block in range(model.num_blocks):
        if case is not None and block == case.route.start:
            state = leave(state, case.ids)
        before = state
        streams = {name: stream.clone() for name, stream in state.streams.items()}
        background = {name: stream.clone() for name, stream in (state.background or {}).items()}
        state = model.run_block(block, state)
        yield Step(block, before, streams, background, state)
        if case is not None and block == case.route.end:
            state = come_back(state)


def with_skips_by_hand(model: Backbone, state: TokenState, case: Case) -> TokenState:
    """Run all blocks, converting every skip at the route's borders to what `TokenState.pop_skip` must return."""
    whole: dict[int, Skip] = {}
    for block in range(model.num_blocks):
        if block == case.route.start:
            outside = state.skips
            state = leave(state, case.ids)
            gathered = tuple(_gathered_by_hand(skip, state.positions) for skip in outside)
            whole = {id(inside): skip for inside, skip in zip(gathered, outside, strict=True)}
            state = replace(state, skips=gathered)
        state = model.run_block(block, state)
        if block == case.route.end:
            skips = tuple(whole[id(skip)] if id(skip) in whole else _expanded_by_hand(skip) for skip in state.skips)
            state = replace(come_back(state), skips=skips)
    return state


def _gathered_by_hand(skip: Skip, positions_BK: Tensor | None) -> Skip:
    assert positions_BK is not None
    value = torch.stack([tokens[kept] for tokens, kept in zip(skip.value, positions_BK, strict=True)])
    return Skip(value, positions_BK, None)


def _expanded_by_hand(skip: Skip) -> Skip:
    assert skip.background is not None and skip.positions is not None
    value = skip.background.clone()
    for sample, kept in enumerate(skip.positions):
        value[sample, kept] = skip.value[sample]
    return Skip(value, None, None)
