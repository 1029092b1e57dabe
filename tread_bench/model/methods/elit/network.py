"""ELIT (Haji-Ali et al., "One Model, Many Budgets: Elastic Latent Interfaces for Diffusion Transformers", CVPR 2026,
arXiv 2603.12245): the blocks of a route run on latents.

Tokens s are divided into groups on the grid, and each group has as many latents l as tokens; all groups begin with the
same ones, which are learned. Before the route the latents of a group read from its tokens, l <- l + CA(LN(l); s) and
l <- l + MLP(LN(l)), both modulated (adaLN-Zero); after it, the latents are written to the tokens of their group: the
same with the two exchanged, and without modulation. A training step keeps the first latents of every group, as many as
are drawn for it, so the network can be evaluated with any number of them.

A latent has the place of one token of its group, which is all that the blocks of a backbone know of order or position.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.core.numbers import draws
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, checkpointed, come_back, leave
from tread_bench.model.methods.adaln import AdaLNCross
from tread_bench.model.methods.base import BatchRange, Method, Prediction, run_range, walk, widths
from tread_bench.model.methods.elit.family import ElitOptions
from tread_bench.model.ops.patching import sincos_positions
from tread_bench.model.ops.selecting import rank_strided


class Elit(Method):
    """ELIT with one route. G groups of J tokens, of whose latents L are kept."""

    draws_masks = False
    places: Tensor  # (G, J) tokens whose places the latents have, those of each group in the order that they are kept

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, ElitOptions)
        width, condition = widths(backbone)
        self.grid, self.batch = backbone.spec.grid, cell.training.batch
        self.register_buffer("places", places_of_groups(self.grid, cell.method.groups), persistent=False)
        in_group = self.places.shape[1]
        self.fewest = self.routes[0].kept(in_group)
        self.evaluated_with = max(1, round(cell.method.budget * in_group))
        self.latents = nn.Parameter(torch.empty(in_group, width))  # of every group, in the order that they are kept
        self.read = AdaLNCross(width, cell.method.heads, condition)
        self.write = AdaLNCross(width, cell.method.heads, condition=None)
        read_at_zero = ("read.proj", "read.mlp.fc2") if condition is None else ("read.modulation",)
        self.starts_at_zero = (*read_at_zero, "write.proj", "write.mlp.fc2")

    def init_module(self, name: str, module: nn.Module) -> None:
        """Xavier linears; latents start as positions in their group; what is read and written starts at zero."""
        if module is self:
            first_group = self.places[0]
            self.latents.copy_(sincos_positions(self.latents.shape[1], self.grid)[first_group])
        else:
            super().init_module(name, module)

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        kept = self.drawn_number(batch_range) if batch_range.routing else self.places.shape[1]
        return Prediction(self._forward(backbone, start, kept, on_block))

    def eval_forward(self, backbone: Backbone, start: TokenState, on_block: OnBlock | None = None) -> Tensor:
        return self._forward(backbone, start, self.evaluated_with, on_block)

    def drawn_number(self, batch_range: BatchRange) -> int:
        """Return how many latents of each group the step keeps, which all parts of its batch share."""
        if batch_range.alternative is not None:
            return self.fewest + batch_range.alternative
        step, numbers = batch_range.first // self.batch, self.places.shape[1] - self.fewest + 1
        return self.fewest + int(draws.integers(batch_range.seed, "latents of a group", step, 1, numbers)[0])

    def counted(self, batch_range: BatchRange) -> BatchRange:
        return replace(batch_range, alternative=self.drawn_number(batch_range) - self.fewest)

    def _forward(self, backbone: Backbone, start: TokenState, kept: int, on_block: OnBlock | None) -> Tensor:
        """The image, with the first `kept` latents of each group."""

        def inside(number: int, state: TokenState) -> TokenState:
            return self._through_latents(backbone, state, kept, on_block)

        return backbone.finish(walk(backbone, start, dict(enumerate(self.routes)), inside, on_block))

    def _through_latents(
        self, backbone: Backbone, state: TokenState, kept: int, on_block: OnBlock | None
    ) -> TokenState:
        # Read: the latents that are kept, from the tokens, both group by group.
        groups = len(self.places)
        places, everywhere = self.places[:, :kept].flatten(), self.places.flatten()
        prefix, image = state.stream().tensor_split([state.num_prefix], dim=1)
        tokens = image[:, everywhere]
        latents = self.latents[:kept].repeat(groups, 1).to(tokens.dtype).expand(state.batch, -1, -1)
        latents = checkpointed(backbone, self.read, latents, tokens, state.c, groups)

        # The route's blocks, on latents in the order of their places.
        order = places.argsort()
        if len(places) < state.num_tokens:
            state = leave(state, places[order].expand(state.batch, -1))
        state = state.with_stream(torch.cat([prefix, latents[:, order]], dim=1))
        state = run_range(backbone, state, self.routes[0].blocks, on_block)
        latents = state.stream()[:, state.num_prefix :][:, order.argsort()]

        # Write: the tokens, from their latents.
        whole = state if state.ids is None else come_back(state)
        written = checkpointed(backbone, self.write, tokens, latents, None, groups)
        prefix = whole.stream()[:, : whole.num_prefix]
        return whole.with_stream(torch.cat([prefix, written[:, everywhere.argsort()]], dim=1))


def places_of_groups(grid: tuple[int, int], groups: int) -> Tensor:
    """Return the tokens (G, J) of groups x groups equal parts of the grid: in each, those of a coarse lattice first."""
    rows, columns = grid
    inside = height, width = rows // groups, columns // groups
    by_group = (
        torch.arange(rows * columns).view(groups, height, groups, width).transpose(1, 2).reshape(-1, height * width)
    )
    return by_group[:, rank_strided(torch.zeros(1, height * width), inside)[0].argsort()]
