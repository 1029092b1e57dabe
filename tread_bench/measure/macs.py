"""Parameters and multiply-adds of a backbone and of what a method adds, counted on the meta device.

The tests compare a family's closed form (`costs.py`) with this count; a family without one is counted. torch's
`FlopCounterMode` counts two per multiply-add and nothing for elementwise work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Lora
from tread_bench.core.describe.families import BackboneSpec, Cost, Family, Macs
from tread_bench.core.describe.routes import RoutesLike
from tread_bench.core.numbers.cell_costs import Extra
from tread_bench.measure.targets import open_targets
from tread_bench.model.adapters import add_adapters
from tread_bench.model.backbone import Backbone, TokenState, build_backbone
from tread_bench.model.losses.repa.family import IMAGE_CHANNELS, RepaOptions
from tread_bench.model.losses.repa.network import Repa
from tread_bench.model.methods.base import BatchRange, build_method
from tread_bench.model.network import Network

_ATTENTION = ("bmm", "baddbmm", "scaled_dot_product", "flash_attention")
_SCAN = ("scan", "wkv")


def count_cost(
    family: Family, spec: BackboneSpec, routes: RoutesLike = (), selector: str = "random", lora: Lora | None = None
) -> Cost:
    """Count one image's forward pass, block by block and by kind, and its backward pass, on the meta device.

    With adapters, the backward pass has no gradient of a frozen weight, nor of any input before the first adapter.
    """
    with torch.device("meta"):
        model = build_backbone(family, spec, {"attention": "math"})
        if lora is not None:
            add_adapters(model, lora, seed=0)
        x, t, y = _inputs(spec)
    counter = macs_counter()
    blocks: list[Macs] = []
    run_block = model.run_block

    def run_and_count(block: int, state: TokenState) -> TokenState:
        before = macs_by_kind(counter)
        state = run_block(block, state)
        blocks.append(macs_by_kind(counter) - before)
        return state

    model.run_block = run_and_count  # type: ignore[method-assign]
    return count_passes(model, counter, lambda: model(x, t, y, routes=routes, selector=selector), blocks)


def count_passes(
    network: nn.Module, counter: FlopCounterMode, forward: Callable[[], Tensor], blocks: Sequence[Macs]
) -> Cost:
    """Count a forward and a backward pass of a network, while somebody notes the cost of each of its blocks."""
    with counter:
        output = forward()
        one_pass = macs_by_kind(counter)
        output.sum().backward()
    return Cost(
        params=_num_parameters(network),
        trainable_params=sum(p.numel() for p in network.parameters() if p.requires_grad),
        blocks=tuple(blocks),
        outside=one_pass - sum(blocks, Macs()),
        inputs=3 * one_pass.total - macs_by_kind(counter).total,
    )


def count_method(cell: Cell, family: Family, spec: BackboneSpec, routed: Cost, share: float = 1.0) -> Extra:
    """Return the method's cost, counted on the meta device in a training step at a share of the rates.

    Args:
        routed: cost of the backbone alone at the same rates.
    """
    with torch.device("meta"):
        model = build_backbone(family, spec, {"attention": "math"})
        network = Network(model, build_method(cell, model))
        x, t, y = _inputs(spec)

    # Count a forward and a backward pass with the method, and subtract the cost of the backbone alone.
    stated = _BlocksAsStated(network.backbone, family, spec)
    counter = macs_counter()
    with counter:
        prediction = network.train_forward(x, t, y, BatchRange(seed=0, first=0, count=1, routing=share))
        forward = macs_by_kind(counter) + stated.macs
        outputs = [prediction.output, *([] if prediction.second is None else [prediction.second])]
        torch.stack(outputs).sum().backward()
    train_step = macs_by_kind(counter).total + 3 * stated.macs.total - routed.train_step

    # The method's parameters, without those of a last layer that it does not use.
    params = _num_parameters(network.method)
    unused = _num_parameters(model) - _num_parameters(network.backbone)
    return Extra(params, unused, forward - routed.forward, train_step)


class _BlocksAsStated:
    """Blocks that compute nothing, where the family states their cost: a large network is counted in a moment.

    Args:
        model: on the meta device; its blocks pass on their tokens, and the gradients of all that they would read.

    `macs` is the cost of all calls so far, a forward pass each.
    """

    def __init__(self, model: Backbone, family: Family, spec: BackboneSpec) -> None:
        self.macs = Macs()
        self.family, self.spec = family, spec
        if family.cost is not None:
            model.run_block = self._run_block  # type: ignore[method-assign]

    def _run_block(self, block: int, state: TokenState) -> TokenState:
        tokens = [state.stream().shape[1]] * self.family.num_blocks(self.spec)
        assert self.family.cost is not None
        self.macs += self.family.cost(self.spec, tokens).blocks[block]
        unrouted = (state.streams[name] for name in state.unrouted)
        read = [part.sum() for part in (state.c, state.context, *unrouted) if part is not None]
        return state.with_streams(**{name: sum(read, stream) for name, stream in state.streams.items()})


def count_repa(config: RepaOptions, family: Family, spec: BackboneSpec, tokens: Sequence[int]) -> Extra:
    """Cost of REPA's projection after each block; `train_step` includes the pass of its target features."""
    targets = open_targets(config)
    with torch.device("meta"):
        repa = Repa(config, build_backbone(family, spec, {"attention": "math"}), targets)
    counter = macs_counter()
    with counter:
        # Of latents, it sees the images beside them; the target network resizes images to a size of its own.
        channels = spec.channels if spec.channels in IMAGE_CHANNELS else IMAGE_CHANNELS[-1]
        targets(torch.zeros(1, channels, spec.image_size, spec.image_size), spec.grid)
    forward = tokens[repa.block] * sum(p.numel() for p in repa.parameters() if p.ndim == 2)
    return Extra(
        _num_parameters(repa), forward=Macs(linear=forward), train_step=3 * forward + macs_by_kind(counter).total
    )


def count_training(loss: Callable[[], Tensor]) -> int:
    """Multiply-adds of a loss and of its gradients."""
    counter = macs_counter()
    with counter:
        value = loss()
        if value.requires_grad:
            value.backward()
    return macs_by_kind(counter).total


def _num_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def macs_counter() -> FlopCounterMode:
    """Return a counter of forward and backward passes, to read with `macs_by_kind`."""
    mapping = {torch.ops.aten.convolution_backward: _convolution_backward}
    return FlopCounterMode(display=False, custom_mapping=mapping)


def count_evaluated(cell: Cell, family: Family, spec: BackboneSpec, shallow: bool = False) -> Macs:
    """Count one image's forward pass as the method is evaluated, or along its shallow path, on the meta device."""
    with torch.device("meta"), torch.no_grad():
        backbone = build_backbone(family, spec, {"attention": "math"})
        method = build_method(cell, backbone)
        x, t, y = _inputs(spec)
        stated = _BlocksAsStated(backbone, family, spec)
        with macs_counter() as counter:
            start = backbone.start(x, t, y)
            if shallow:
                method.shallow_forward(backbone, start)
            else:
                method.eval_forward(backbone, start)
    return macs_by_kind(counter) + stated.macs


def _inputs(spec: BackboneSpec) -> tuple[Tensor, Tensor, Tensor | None]:
    """One image, its time, and its text or label."""
    x = torch.empty(1, spec.channels, spec.image_size, spec.image_size)
    t = torch.empty(1)
    if spec.context_shape is not None:
        return x, t, torch.empty(1, *spec.context_shape)
    return x, t, torch.zeros(1, dtype=torch.long) if spec.num_classes else None


def _convolution_backward(grad_shape, x_shape, w_shape, *args, out_shape, **kwargs):  # type: ignore[no-untyped-def]
    """Flops of a convolution's gradients, each as many as its forward pass; torch's own formula ignores groups."""
    gradients = sum(shape is not None for shape in out_shape[:2])
    return gradients * 2 * math.prod(grad_shape) * math.prod(w_shape[1:])


def macs_by_kind(counter: FlopCounterMode) -> Macs:
    """Return the multiply-adds counted so far."""
    counts = {"linear": 0, "attention": 0, "scan": 0}
    for operation, flops in counter.get_flop_counts().get("Global", {}).items():
        name = str(operation)
        if any(part in name for part in _ATTENTION):
            kind = "attention"
        elif any(part in name for part in _SCAN):
            kind = "scan"
        else:
            kind = "linear"
        counts[kind] += flops // 2
    return Macs(**counts)
