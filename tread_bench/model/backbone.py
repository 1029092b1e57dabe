"""The interface of a backbone, and the one place where tokens leave a network and return.

Shapes: B batch, P prefix tokens, N image tokens, K of them present, M text tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tread_bench.core.describe.families import BackboneSpec, Family, make_spec
from tread_bench.core.describe.objectives import ObjectiveOptions
from tread_bench.core.describe.plugins import named
from tread_bench.core.describe.routes import ResolvedRoute, Route, RoutesLike, as_routes
from tread_bench.core.describe.selectors import TokenOrder
from tread_bench.core.numbers.draws import key_of
from tread_bench.model.ops.routing import gather_tokens, scatter_tokens, with_prefix
from tread_bench.model.ops.selecting import select


@dataclass(frozen=True, slots=True)
class Skip:
    """A long skip: a stream that one block saves for a later one, with the tokens that were present."""

    value: Tensor  # (B, P + K, D)
    positions: Tensor | None  # (B, P + K) positions in the whole sequence; None: all
    background: Tensor | None  # (B, P + N, D), with bypassed tokens as at their route's start


@dataclass(frozen=True, slots=True)
class TokenState:
    """The state that moves through the blocks.

    `streams` leave and return together, but for those that are `unrouted`: blocks change these as well, and they are
    whole in every block. `c`, `context` and `conditioning` are never routed, and no block changes them; `positions` and
    `ids` are None while all tokens are present. `cache` lives for one route (or the stretch between two) and holds what
    depends only on the ids: a restricted scan, rows of a rotary table, neighbours.
    """

    streams: Mapping[str, Tensor]  # each (B, P + K, D); an unrouted one (B, M, D), with M and D of its own
    grid: tuple[int, int]
    c: Tensor | None = None  # (B, D)
    context: Tensor | None = None  # (B, M, D)
    num_prefix: int = 0
    ids: Tensor | None = None  # (B, K) image tokens present, ascending
    positions: Tensor | None = None  # (B, P + K): prefix positions, then ids
    background: Mapping[str, Tensor] | None = None  # streams when the tokens left
    skips: tuple[Skip, ...] = ()
    cache: dict[str, Any] = field(default_factory=dict)
    unrouted: tuple[str, ...] = ()  # streams that no route takes: a text that every block changes
    residual: tuple[str, ...] = ()  # streams whose sum is the residual stream; empty: all that a route takes
    conditioning: tuple[Tensor | None, ...] = ()  # (B, ...) each: further inputs of a `RoutedNetwork`'s blocks
    drop_draws: Tensor | None = None  # (B, backbone.num_drops), uniform in [0, 1): for drop path; None: nothing drops

    @property
    def routed(self) -> tuple[str, ...]:
        """Names of the streams that a route takes: those that hold the image tokens."""
        return tuple(name for name in self.streams if name not in self.unrouted)

    @property
    def batch(self) -> int:
        """B, the number of samples."""
        return len(next(iter(self.streams.values())))

    @property
    def num_tokens(self) -> int:
        """N, the number of image tokens in the whole sequence, present or not."""
        rows, columns = self.grid
        return rows * columns

    @property
    def device(self) -> torch.device:
        """Device of the tokens."""
        return next(iter(self.streams.values())).device

    def drawn(self, drop: int) -> Tensor | None:
        """Return each sample's draw (B,) for a drop path by its number; None where nothing drops."""
        return None if self.drop_draws is None else self.drop_draws[:, drop]

    def stream(self) -> Tensor:
        """Return the residual stream (B, P + K, D), on which similarity is measured."""
        first, *others = (self.streams[name] for name in self.residual or self.routed)
        return sum(others, first)

    def with_streams(self, **streams: Tensor) -> TokenState:
        """Return the same tokens with new values in the named streams."""
        return replace(self, streams={**self.streams, **streams})

    def with_stream(self, value: Tensor) -> TokenState:
        """Return the same tokens with the residual stream `value` (B, P + K, D): in its last part, the others zero."""
        *others, last = self.residual or self.routed
        parts = {name: torch.zeros_like(value, dtype=self.streams[name].dtype) for name in others}
        return self.with_streams(**parts, **{last: value.to(self.streams[last].dtype)})

    def only(self, samples: Tensor) -> Self:
        """Return these samples (K,) alone, without the skips saved before."""

        def taken(value: Tensor | None) -> Tensor | None:
            return value[samples] if value is not None else None

        return replace(
            self,
            streams={name: stream[samples] for name, stream in self.streams.items()},
            c=taken(self.c),
            context=taken(self.context),
            ids=taken(self.ids),
            positions=taken(self.positions),
            conditioning=tuple(map(taken, self.conditioning)),
            drop_draws=taken(self.drop_draws),
            skips=(),
            cache={},
        )

    def push_skip(self, stream: str) -> TokenState:
        """Save a stream that a route takes for a later block that pops it; last in, first out."""
        background = self.background[stream] if self.background is not None else None
        return replace(self, skips=(*self.skips, Skip(self.streams[stream], self.positions, background)))

    def pop_skip(self) -> tuple[Tensor, TokenState]:
        """Return the most recent skip, for exactly the tokens that are present now, and the state without it.

        A skip saved inside a route holds only the kept tokens; the others get their values from that route's start.
        """
        *rest, skip = self.skips
        value = skip.value
        if skip.positions is not self.positions:
            if skip.positions is not None and skip.background is not None:
                value = scatter_tokens(skip.background, value, skip.positions)
            if self.positions is not None:
                value = gather_tokens(value, self.positions)
        return value, replace(self, skips=tuple(rest))


def leave(state: TokenState, ids_BK: Tensor, detach: bool = False) -> TokenState:
    """Keep only the prefix and the tokens `ids_BK` (ascending); the whole streams become the background.

    Unrouted streams stay as they are. With `detach`, no gradient flows through the background.
    """
    positions = with_prefix(ids_BK, state.num_prefix)
    whole = {name: state.streams[name] for name in state.routed}
    kept = {name: gather_tokens(stream, positions) for name, stream in whole.items()}
    behind = {name: stream.detach() for name, stream in whole.items()} if detach else whole
    return replace(state.with_streams(**kept), ids=ids_BK, positions=positions, background=behind, cache={})


def come_back(state: TokenState) -> TokenState:
    """Restore all tokens: the processed ones with their new values, the others with those they left with."""
    assert state.background is not None and state.positions is not None, "no route is under way"
    whole = {}
    for name in state.routed:
        whole[name] = scatter_tokens(state.background[name], state.streams[name], state.positions)
    return replace(state.with_streams(**whole), ids=None, positions=None, background=None, cache={})


OnBlock = Callable[[int, TokenState], None]
Result = TypeVar("Result")


def run_blocks(
    backbone: Backbone,
    state: TokenState,
    routes: Sequence[ResolvedRoute] = (),
    ids: Sequence[Tensor] = (),
    on_block: OnBlock | None = None,
    detach: bool = False,
    float32_after_route: bool = False,
) -> TokenState:
    """Run all blocks; before each route's start its tokens leave, after its end they return.

    Args:
        routes: as returned by `Family.resolve`, so that no two share a block.
        ids: for each route, the kept tokens (B, K), ascending.
        on_block: called after each block with its number and the state (with all tokens, after a route's end).
        detach: no gradient flows through a bypass.
        float32_after_route: the block after a route's end runs outside autocast.
    """
    # Blocks where tokens leave, with the ids that stay, and where they return.
    kept_at = {route.start: kept for route, kept in zip(routes, ids, strict=True)}
    ends = {route.end for route in routes}

    # Walk the blocks.
    for block in range(backbone.num_blocks):
        if block in kept_at:
            state = leave(state, kept_at[block], detach)
        follows_route = block - 1 in ends
        state = call_block(backbone, block, state, float32=float32_after_route and follows_route)
        if block in ends:
            state = come_back(state)
        if on_block is not None:
            on_block(block, state)
    return state


def call_block(backbone: Backbone, block: int, state: TokenState, float32: bool = False) -> TokenState:
    """Run one block as in a training step; with `float32`, outside autocast."""
    run = partial(_run_in_float32, backbone) if float32 else backbone.run_block
    return checkpointed(backbone, run, block, state)


def checkpointed(backbone: Backbone, run: Callable[..., Result], *arguments: object) -> Result:
    """Call `run`; if the backbone uses gradient checkpointing, it is computed again in the backward pass."""
    if backbone.gradient_checkpointing and torch.is_grad_enabled():
        return checkpoint(run, *arguments, use_reentrant=False)
    return run(*arguments)


def _run_in_float32(backbone: Backbone, block: int, state: TokenState) -> TokenState:
    """Run this one block with streams and conditioning in float32; later blocks get the original conditioning."""
    device = state.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return backbone.run_block(block, state)
    conditioning = tuple(_float32(one) for one in state.conditioning)
    streams = {name: stream.float() for name, stream in state.streams.items()}
    given = replace(
        state, streams=streams, c=_float32(state.c), context=_float32(state.context), conditioning=conditioning
    )
    with torch.autocast(device, enabled=False):
        after = backbone.run_block(block, given)
    return replace(after, c=state.c, context=state.context, conditioning=state.conditioning)


def _float32(x: Tensor | None) -> Tensor | None:
    """Convert floating-point tensors to float32; leave labels and masks unchanged."""
    return x.float() if x is not None and x.is_floating_point() else x


def draw_weights(module: nn.Module, seed: int, init_module: Callable[[str, nn.Module], None], prefix: str = "") -> None:
    """Draw the weights, each module's by its name, which starts with `prefix`.

    Args:
        init_module: draws the parameters that a module itself owns; torch's global generator is seeded before each
            call.
    """
    for name, part in module.named_modules():
        if next(part.parameters(recurse=False), None) is not None:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.default_generator.manual_seed(key_of(seed, "weights", prefix + name) % 2**63)
                init_module(name, part)


def build_backbone(
    family: Family,
    spec: BackboneSpec,
    kernels: Mapping[str, str] | None = None,
    seed: int | None = None,
    objective: ObjectiveOptions | None = None,
) -> Backbone:
    """Build a family's network.

    Args:
        objective: what it is trained for, which may read a variance and number its noise levels; None: neither.
        seed: seed of the initial weights. The constructor runs under its own generator with this seed, and
            `Backbone.initialise` follows; None: weights stay as the constructor draws them.
    """
    # The network, by its own generator.
    construct = named(family.builder)
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(key_of(seed, "constructor") % 2**63)
        model: Backbone = construct(spec, dict(kernels or {}))

    # What it is, what its output is read as, and its weights.
    model.family = family
    model.spec = spec
    if objective is not None:
        model.returns_variance = objective.reads_variance
        model.numbers_levels = objective.family.numbers_levels
    if seed is not None:
        model.initialise(seed)
    return model


def create_backbone(
    name: str, *, kernels: Mapping[str, str] | None = None, seed: int | None = None, **sizes: Any
) -> Backbone:
    """Build a backbone by published name or by family and free sizes.

    Args:
        name: "DiT-S/2", or a family ("DiT") with its sizes as keyword arguments.
        kernels: {"scan": ..., "wkv": ..., "attention": ...}; a missing kind gets the
            formulation that runs on any device.
        seed: seed of the initial weights (`Backbone.initialise`); None: drawn from torch's global generator.

    Raises:
        ValueError: an unknown name, or sizes that do not fit, with the rules (pydantic's `ValidationError`).
    """
    family, spec = make_spec(name, **sizes)
    if seed is None:
        seed = int(torch.randint(2**31, ()).item())
    return build_backbone(family, spec, kernels, seed)


class Backbone(nn.Module):
    """A network as blocks over a `TokenState`. Adapters implement `embed`, `run_block` and `head`.

    With `init_module`, weights are drawn by module name; otherwise the constructor draws them. `build_backbone` sets
    `family` and `spec`.
    """

    family: Family
    spec: BackboneSpec
    head_modules: tuple[str, ...] = ()  # names of the modules that only `head` uses
    adapters: frozenset[str] = frozenset()  # names of parameters that are trained, and no others; empty: all are
    num_drops = 0  # draws for drop path that a sample needs in a training step
    returns_variance = False  # True: outputs have 2C channels, of which the second C say what variance is learned
    numbers_levels = False  # True: t is the number of a noise level, from 0
    gradient_checkpointing = False  # True: the backward pass recomputes blocks, on the same tokens, to save memory

    @property
    def num_blocks(self) -> int:
        """Number of blocks, which routes index."""
        return self.family.num_blocks(self.spec)

    @property
    def out_channels(self) -> int:
        """Channels of the output: C, or 2C with a variance."""
        return self.spec.channels * (2 if self.returns_variance else 1)

    def embed(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        """Return the state before the first block.

        Args:
            x: (B, C, H, W).
            t: (B,), already multiplied by `family.time_scale`, or the number of a noise level as the family counts it.
            y: labels (B,) long; text features (B, M, E) in x's dtype where `spec.context_shape` is (M, E); None where
                the model is unconditional.
        """
        raise NotImplementedError

    def run_block(self, block: int, state: TokenState) -> TokenState:
        """Run one block on the tokens present."""
        raise NotImplementedError

    def head(self, state: TokenState) -> Tensor:
        """Return the output (B, C, H, W), or 2C channels if the backbone also learns a variance."""
        raise NotImplementedError

    def without_head(self) -> Self:
        """Return this backbone, with shared weights, without the modules that only `head` uses."""
        trunk = copy(self)
        trunk._modules = {name: part for name, part in self._modules.items() if name not in self.head_modules}
        return trunk

    def init_module(self, name: str, module: nn.Module) -> None:
        """Draw the parameters that `module` itself owns; torch's global generator is seeded for this module.

        It is called only if an adapter overrides it; the override can call this one for torch's default weights.
        """
        reset = getattr(module, "reset_parameters", None)
        if reset is not None:
            reset()

    def initialise(self, seed: int) -> None:
        """Draw the weights by module name: models that share a module share its initial weights.

        A backbone that does not define `init_module` keeps what its constructor drew, which `Family.build` seeds.
        """
        if type(self).init_module is not Backbone.init_module:
            draw_weights(self, seed, self.init_module)

    def start(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        """Return the state before the first block. Raises ValueError if x or y do not fit the spec."""
        spec = self.spec
        if x.shape[1:] != (spec.channels, spec.image_size, spec.image_size):
            raise ValueError(
                f"x has shape {tuple(x.shape)}; this model takes "
                f"(B, {spec.channels}, {spec.image_size}, {spec.image_size}): build it with other sizes or resize x"
            )
        condition = self._labels(x, y) if spec.context_shape is None else self._text(x, y, spec.context_shape)
        time = t + self.family.first_level if self.numbers_levels else t * self.family.time_scale
        return self.embed(x, time, condition)

    def _labels(self, x: Tensor, y: Tensor | None) -> Tensor | None:
        classes = self.spec.num_classes
        if y is None:
            return torch.full((len(x),), classes, device=x.device) if classes else None
        if not classes:
            raise ValueError("y was given to an unconditional model (num_classes=0); leave it out")
        if y.shape != (len(x),) or y.is_floating_point():
            raise ValueError(f"y is {kind(y)}; this model takes labels: (B,) = ({len(x)},) long, 0 to {classes}")
        return y

    def _text(self, x: Tensor, y: Tensor | None, context_shape: tuple[int, int]) -> Tensor:
        shape = (len(x), *context_shape)
        if y is None or y.shape != shape or not y.is_floating_point():
            raise ValueError(
                f"y is {'missing' if y is None else kind(y)}; this model takes text: features (B, M, E) = {shape}, "
                "floating point; for no text, those that the encoder makes of the empty text"
            )
        return y.to(x.dtype)

    def finish(self, state: TokenState) -> Tensor:
        """Return the output (B, C, H, W), or 2C channels with a variance, for the state after the last block."""
        return self.head(state)[:, : self.out_channels]

    def forward(
        self,
        x: Tensor,
        t: Tensor,
        y: Tensor | None = None,
        *,
        routes: RoutesLike = (),
        selector: str = "random",
        generator: torch.Generator | None = None,
        ids: Sequence[Tensor] | None = None,
        on_block: OnBlock | None = None,
    ) -> Tensor:
        """Predict from x (B, C, H, W) at times t (B,) under a condition y.

        y holds labels (B,) long, where num_classes means no label; or, if the spec has context_tokens, text
        features (B, M, E) of floating point: M context_tokens of width context_dim, as computed by the text encoder.

        Routing happens exactly when `routes` is passed, in train and in eval mode alike: `Route`s, or text such as
        "2:8@0.5". `ids` gives each route's kept tokens (B, K); without it they are drawn by `selector` from
        `generator`.

        Returns:
            (B, C, H, W), or 2C channels where it `returns_variance`.

        Raises:
            ValueError: shapes, labels, text, routes or a selector do not fit; the message names the rule.
        """
        # Choose the tokens that each route keeps.
        resolved = self.family.resolve(self.spec, routes, selector)
        state = self.start(x, t, y)
        if self.training and self.num_drops:
            state = replace(state, drop_draws=torch.rand(state.batch, self.num_drops, device=x.device))
        if ids is None:
            ids = [self.draw_ids(route, selector, state, generator) for route in resolved]
        else:
            self.check_ids(resolved, ids, state)

        # Run the blocks and predict.
        return self.finish(run_blocks(self, state, resolved, ids, on_block))

    def check_ids(self, routes: RoutesLike, ids: Sequence[Tensor], state: TokenState) -> None:
        """Raise ValueError if kept ids do not fit their routes; on a GPU only shapes are checked, without a sync."""
        routes = as_routes(routes)
        if len(ids) != len(routes):
            raise ValueError(f"ids holds {len(ids)} tensors for {len(routes)} routes: pass one (B, K) for each")
        tokens = state.num_tokens
        any_order = self.family.token_order is TokenOrder.SET
        for route, kept in zip(routes, ids, strict=True):
            shape = state.batch, route.kept(tokens)
            if kept.shape != shape:
                raise ValueError(f"ids of route {route}: shape {tuple(kept.shape)}, but it keeps (B, K) = {shape}")
            in_order = kept.sort(dim=1).values if any_order else kept
            if kept.is_cpu and not ((in_order.diff(dim=1) > 0).all() and kept.min() >= 0 and kept.max() < tokens):
                order = "distinct" if any_order else "ascending (sort each sample's): the order of tokens matters"
                raise ValueError(f"ids of route {route}: must lie in 0..{tokens - 1} and be {order}")

    def draw_ids(self, route: Route, selector: str, state: TokenState, generator: torch.Generator | None) -> Tensor:
        """Draw the kept tokens (B, K) of a route."""
        drawn_on = generator.device if generator is not None else state.device
        scores = torch.rand(state.batch, state.num_tokens, generator=generator, device=drawn_on).to(state.device)
        return select(selector, scores, state.grid, route.kept(state.num_tokens))


def kind(value: object) -> str:
    """Describe a value in a message: a tensor by its shape and dtype, anything else by its type."""
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return f"a {type(value).__name__}"
