"""A backbone with its method and auxiliary losses: the network that is trained, averaged and evaluated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.families import BackboneSpec
from tread_bench.core.describe.plugins import named
from tread_bench.model.adapters import add_adapters
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, draw_weights
from tread_bench.model.methods.base import Auxiliary, BatchRange, Images, Method, Prediction, build_method, init_linear


class Network(nn.Module):
    """A backbone as its method runs it, in training steps and in evaluation.

    It shares its weights with the given backbone, which stays unchanged. The backbone's last layer is left out if the
    method has its own.

    Args:
        auxiliaries: losses in addition to the method's own.
    """

    def __init__(self, backbone: Backbone, method: Method, auxiliaries: Iterable[Auxiliary] = ()) -> None:
        super().__init__()
        self.backbone = backbone.without_head() if method.has_last_layer else backbone
        self.method = method
        self.auxiliaries = nn.ModuleList([*method.auxiliaries(), *auxiliaries])

    @property
    def spec(self) -> BackboneSpec:
        return self.backbone.spec

    @property
    def num_blocks(self) -> int:
        return self.backbone.num_blocks

    def train_forward(self, x: Tensor, t: Tensor, y: Tensor | None, batch_range: BatchRange) -> Prediction:
        """Return the prediction of a training step, with everything that its loss needs."""
        return self.computed(x, t, y, self.method.counted(batch_range))

    def computed(self, x: Tensor, t: Tensor, y: Tensor | None, batch_range: BatchRange) -> Prediction:
        """As `train_forward`, of a range whose shapes are known to the host: what can be compiled as a whole."""
        # Keep the tokens after the blocks that auxiliary losses read.
        wanted = {auxiliary.block for auxiliary in self.auxiliaries} - {None}
        states: dict[int, TokenState] = {}

        def keep(block: int, state: TokenState) -> None:
            if block in wanted:
                states[block] = state

        # Run the blocks as the method does in training.
        start = replace(self.backbone.start(x, t, y), drop_draws=batch_range.drop_draws)
        prediction = self.method.train_forward(self.backbone, start, batch_range, keep if wanted else None)
        return replace(prediction, states=states)

    def auxiliary_losses(self, prediction: Prediction, images: Images) -> list[Tensor]:
        """Return the terms added to the objective's loss, one scalar each."""
        return [auxiliary(prediction, images) for auxiliary in self.auxiliaries]

    def forward(self, x: Tensor, t: Tensor, y: Tensor | None = None, *, on_block: OnBlock | None = None) -> Tensor:
        """Return the prediction (B, C, H, W) for evaluation: on all tokens, as the method samples."""
        return self.method.eval_forward(self.backbone, self.backbone.start(x, t, y), on_block)


def build_network(cell: Cell, backbone: Backbone, seed: int) -> Network:
    """Return the backbone, and what the cell adds to it, drawn by name: the backbone's weights stay the same.

    Raises:
        UserError: the target features of an auxiliary loss cannot be read, or there can be no adapters.
    """
    # Adapters, which then are what is trained.
    if cell.training.lora is not None:
        add_adapters(backbone, cell.training.lora, seed)

    # The method's own parameters.
    method = build_method(cell, backbone)
    draw_weights(method, seed, method.init_module, "method.")

    # Those of the auxiliary losses.
    losses: list[Auxiliary] = [named(options.family.builder)(options, cell, backbone) for options in cell.auxiliary]
    for options, loss in zip(cell.auxiliary, losses, strict=True):
        draw_weights(loss, seed, lambda name, module: init_linear(module), f"auxiliary.{options.name}.")
    return Network(backbone, method, losses)
