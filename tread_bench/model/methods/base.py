"""The interfaces of a method, which says how a training step runs the blocks, and of an auxiliary loss, which is added
to the training loss of any method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.families import BackboneSpec
from tread_bench.core.describe.plugins import named
from tread_bench.core.describe.routes import ResolvedRoute, Route
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, call_block, run_blocks
from tread_bench.model.ops.selecting import select
from tread_bench.model.samples import Samples


@dataclass(frozen=True, slots=True)
class BatchRange(Samples):
    """The samples that a batch takes from a seed's endless sequence, which all draws depend on, and their routing.

    `routing` is the share of each route's rate at this step: 1 as configured, 0 dense. With SPRINT, samples lose their
    deep path at any share, as released; without `path_drop` no sample does. To count a step, `alternative` numbers the
    one of the description's `alternatives` that it takes; None: it is drawn. The rest was drawn ahead: `masks` are ids
    (B, K) by stream and K, `drawn` what a method draws of whole samples (B,) by stream, `counts` how many samples a
    method chooses, by stream, and `drop_draws` (B, backbone.num_drops) the samples' draws for drop path; None: nothing
    drops.
    """

    routing: float = 1.0
    path_drop: bool = True
    alternative: int | None = None
    masks: Mapping[tuple[str, int], Tensor] = field(default_factory=dict, compare=False)
    drawn: Mapping[str, Tensor] = field(default_factory=dict, compare=False)
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)
    drop_draws: Tensor | None = field(default=None, compare=False)

    def each(self, change: Callable[[Tensor], Tensor]) -> BatchRange:
        """Return the same with every tensor changed."""
        masks = {key: change(ids) for key, ids in self.masks.items()}
        drawn = {stream: change(values) for stream, values in self.drawn.items()}
        drops = None if self.drop_draws is None else change(self.drop_draws)
        return replace(self, masks=masks, drawn=drawn, drop_draws=drops)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A method's output (B, C, H, W), and the rest that the loss of a training step needs."""

    output: Tensor
    kept: Mapping[int, Tensor] = field(default_factory=dict)  # ids (B, K) by number of the route on which tokens left
    weight: Tensor | None = None  # (B, 1, H, W), weight of each pixel's error in the loss; None: equal weights
    second: Tensor | None = None  # (B, C, H, W), output of another pass, whose loss is added; None: there is none
    states: Mapping[int, TokenState] = field(default_factory=dict)  # tokens after the blocks that auxiliary losses read


@dataclass(frozen=True, slots=True)
class Images:
    """Images that a prediction may be compared with, each (B, C, H, W)."""

    clean: Tensor
    noised: Tensor
    denoised: Tensor  # the network's estimate of `clean`; gradients flow through it
    pictures: Tensor | None = None  # the images beside latents, (B, 3, H', W'); None: `clean` are images

    @property
    def seen(self) -> Tensor:
        """What a network of images sees of the samples."""
        return self.clean if self.pictures is None else self.pictures


class Auxiliary(nn.Module):
    """A loss on a prediction. It owns its extra parameters; none of them is needed for sampling."""

    block: int | None = None  # after which it reads the tokens
    file_sha256: str = ""  # hash of the weights that it reads

    def forward(self, prediction: Prediction, images: Images) -> Tensor:
        """Return the weighted loss, a scalar."""
        raise NotImplementedError


class Method(nn.Module):
    """Runs a backbone in a training step and in evaluation.

    A method's extra parameters are in its own submodules; the backbone is not one of them.
    """

    has_last_layer = False  # True: it has its own last layer, so its `Network` leaves out the backbone's
    draws_masks = True  # stream of each route's draws; see `draw`
    starts_at_zero: tuple[str, ...] = ()  # parts of the names of linear layers whose weights are zero at first

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__()
        self.routes = backbone.family.resolve(backbone.spec, cell.routes, cell.selector)
        self.selector = cell.selector
        self.streams = [f"route {route} {cell.selector}" for route in self.routes]  # of their draws

    def init_module(self, name: str, module: nn.Module) -> None:
        """Draw the extra parameters that `module` itself owns: Xavier linears, zero biases, and `starts_at_zero`."""
        init_linear(module)
        if isinstance(module, nn.Linear) and any(part in name for part in self.starts_at_zero):
            nn.init.zeros_(module.weight)

    def auxiliaries(self) -> Sequence[Auxiliary]:
        """Losses that are part of the method."""
        return ()

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        """Return the prediction of a training step for the batch `batch_range`.

        Args:
            start: the backbone's state before its first block.
            on_block: called after each block that all samples pass.
        """
        raise NotImplementedError(f"{type(self).__name__} has no train_forward: write it")

    def eval_forward(self, backbone: Backbone, start: TokenState, on_block: OnBlock | None = None) -> Tensor:
        """Return the dense prediction (B, C, H, W) that samples and validation losses are computed with."""
        return backbone.finish(run_blocks(backbone, start, on_block=on_block))

    def shallow_forward(self, backbone: Backbone, start: TokenState) -> Tensor:
        """Return the prediction without the deep path, for path-drop guidance.

        Raises:
            ValueError: the method has no such path.
        """
        raise ValueError(f"method {type(self).__name__.lower()} has no path to drop: train with method sprint")

    def draw(self, backbone: Backbone, batch_range: BatchRange, device: torch.device) -> dict[int, Tensor]:
        """Return the kept ids (B, K) by route number, for the routes on which tokens leave at this step."""
        drawn = self.draw_all(backbone, batch_range, device)
        return {number: ids for number, ids in enumerate(drawn) if ids.shape[1] < backbone.spec.num_tokens}

    def draw_all(self, backbone: Backbone, batch_range: BatchRange, device: torch.device) -> list[Tensor]:
        """Draw the kept ids (B, K) of each route, by route, rate and sample: cells that share a route share masks.

        The draws do not depend on the share of the rate: at a smaller share, a subset of the same tokens bypasses.
        """
        ids = []
        for route, stream in zip(self.routes, self.streams, strict=True):
            applied = route.at_share(batch_range.routing)
            ids.append(draw_kept(stream, batch_range, applied, self.selector, backbone.spec, device))
        return ids

    def with_masks(self, backbone: Backbone, batch_range: BatchRange) -> BatchRange:
        """Return the same range with what a training step needs of random numbers."""
        if not self.draws_masks:
            return batch_range
        device = batch_range.device or torch.device("cpu")
        drawn = self.draw_all(backbone, batch_range, device)
        masks = {(stream, ids.shape[1]): ids for stream, ids in zip(self.streams, drawn, strict=True)}
        return replace(batch_range, masks=masks)

    def counted(self, batch_range: BatchRange) -> BatchRange:
        """Return the same range with what the host must know of a step's shapes before it is computed."""
        return batch_range


def draw_kept(
    stream: str, batch_range: BatchRange, route: Route, selector: str, spec: BackboneSpec, device: torch.device
) -> Tensor:
    """Draw the ids (B, K) of the tokens that a route keeps, from a stream of random numbers by sample index."""
    kept = route.kept(spec.num_tokens)
    if (stream, kept) in batch_range.masks:
        return batch_range.masks[stream, kept].to(device)
    return select(selector, batch_range.uniform(stream, spec.num_tokens), spec.grid, kept).to(device)


def init_linear(module: nn.Module) -> None:
    """Initialise linears with Xavier weights and zero biases; other modules by their own `reset_parameters`."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    else:
        cast(Any, module).reset_parameters()


def run_range(backbone: Backbone, state: TokenState, blocks: range, on_block: OnBlock | None = None) -> TokenState:
    """Run consecutive blocks on the tokens present."""
    for block in blocks:
        state = call_block(backbone, block, state)
        if on_block is not None:
            on_block(block, state)
    return state


def walk(
    backbone: Backbone,
    state: TokenState,
    routes: Mapping[int, ResolvedRoute],
    inside: Callable[[int, TokenState], TokenState],
    on_block: OnBlock | None = None,
) -> TokenState:
    """Run all blocks: each route's by `inside`, which gets the route's number and the state, the others normally."""
    done = 0
    for number, route in routes.items():
        blocks = route.blocks
        state = run_range(backbone, state, range(done, blocks.start), on_block)
        state = inside(number, state)
        done = blocks.stop
    return run_range(backbone, state, range(done, backbone.num_blocks), on_block)


def first_state(backbone: Backbone) -> TokenState:
    """Return the state of one blank image before the first block, to find its widths."""
    spec = backbone.spec
    device = next(backbone.parameters()).device
    x = torch.zeros(1, spec.channels, spec.image_size, spec.image_size, device=device)
    text = None if spec.context_shape is None else torch.zeros(1, *spec.context_shape, device=device)
    with torch.no_grad():
        return backbone.start(x, torch.zeros(1, device=device), text)


def widths(backbone: Backbone) -> tuple[int, int | None]:
    """Return the width of the residual stream, and that of the conditioning; None: the tokens hold it."""
    state = first_state(backbone)
    return state.stream().shape[2], None if state.c is None else state.c.shape[1]


def build_method(cell: Cell, backbone: Backbone) -> Method:
    """Build the cell's method for that backbone; `network.build_network` draws its extra parameters."""
    return cast(Method, named(cell.method.family.builder)(cell, backbone))
