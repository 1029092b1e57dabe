"""Parameters and multiply-adds of a backbone and of what a method adds, counted on the meta device.

The tests compare a family's closed form (`costs.py`) with this count; a family without one is counted. torch's
`FlopCounterMode` counts two per multiply-add and nothing for elementwise work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Lora
from tread_bench.core.describe.families import BackboneSpec, Cost, Family, Macs, families
from tread_bench.core.describe.routes import RoutesLike, resolve_routes, tokens_per_block
from tread_bench.core.numbers.cell_costs import Extra
from tread_bench.model.adapters import add_adapters
from tread_bench.model.backbone import Backbone, TokenState, build_backbone, come_back, leave
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

    With adapters, the backward pass has no gradient of a frozen weight, nor of any input before the first adapter. If
    the family states a cost that is quadratic in each block's tokens, three counts give that of all routes, exactly.
    """
    if lora is not None and (cost := _from_three_counts(family, spec, routes, lora)) is not None:
        return cost
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


_BYPASSED = (0, 1, 2)  # tokens, in three counts


def _from_three_counts(family: Family, spec: BackboneSpec, routes: RoutesLike, lora: Lora) -> Cost | None:
    """The cost with adapters if it is quadratic in each block's tokens, as the family states its cost without them.

    What an adapter adds is linear in the tokens, and a gradient is a product of as many MACs as the forward one.
    """
    if family.cost is None or spec.num_tokens <= max(_BYPASSED):
        return None
    num_blocks, prefix = family.num_blocks(spec), family.num_prefix(spec)
    tokens = tokens_per_block(resolve_routes(routes, num_blocks), num_blocks, spec.num_tokens, prefix)
    dense_tokens = prefix + spec.num_tokens
    bypassed = [dense_tokens - count for count in tokens]
    stated = [_by_kind(family.cost(spec, [dense_tokens - n] * num_blocks).blocks) for n in _BYPASSED]
    if (_quadratic(stated, bypassed) != _by_kind(family.cost(spec, tokens).blocks)).any():
        return None
    dense, counts = _three_counts(family.name, spec, lora)
    blocks = _quadratic(counts, bypassed)
    return replace(
        dense,
        blocks=tuple(Macs(*forward) for *forward, _ in blocks),
        inputs=dense.inputs + sum(blocks[:, -1] - counts[0][:, -1]),
    )


def _quadratic(counts: Sequence[NDArray[np.object_]], bypassed: Sequence[int]) -> NDArray[np.object_]:
    """Integers (blocks, X) where each block has its own number of bypassed tokens, from those with 0, 1 and 2."""
    dense, one, two = counts
    n = np.array(bypassed, dtype=object)[:, None]
    return dense + n * (one - dense) + n * (n - 1) // 2 * (two - 2 * one + dense)


def _by_kind(blocks: Sequence[Macs]) -> NDArray[np.object_]:
    """Forward MACs (blocks, 3) as integers without a largest one."""
    return np.array([(block.linear, block.attention, block.scan) for block in blocks], dtype=object)


@cache
def _three_counts(family: str, spec: BackboneSpec, lora: Lora) -> tuple[Cost, list[NDArray[np.object_]]]:
    """Count a network with adapters on the meta device.

    Returns:
        The dense cost, and for each number of bypassed tokens the integers (blocks, 4) of `_count_blocks`.
    """
    with torch.device("meta"):
        model = build_backbone(families()[family], spec, {"attention": "math"})
        add_adapters(model, lora, seed=0)
        costs, counts = zip(*(_count_blocks(model, bypassed) for bypassed in _BYPASSED), strict=True)
    return costs[0], list(counts)


def _count_blocks(model: Backbone, bypassed: int) -> tuple[Cost, NDArray[np.object_]]:
    """Count a model with tokens that bypass all of its blocks.

    Returns:
        The whole cost, and for each block its forward MACs by kind and its part of `Cost.inputs`, (blocks, 4).
    """
    counter = macs_counter()
    blocks: list[Macs] = []
    reached: dict[int, int] = {}  # MACs so far where a gradient reaches a block: autograd runs the last operation first

    def note(block: int, _: Tensor) -> None:
        reached.setdefault(block, macs_by_kind(counter).total)

    def forward() -> Tensor:
        kept = torch.arange(model.spec.num_tokens - bypassed)
        state = leave(model.start(*_inputs(model.spec)), kept[None])
        for block in range(model.num_blocks):
            before = macs_by_kind(counter)
            state = model.run_block(block, state)
            blocks.append(macs_by_kind(counter) - before)
            for stream in state.streams.values():
                if stream.requires_grad:
                    stream.register_hook(partial(note, block))
        return model.finish(come_back(state))

    cost = count_passes(model, counter, forward, blocks)
    ends = [cost.train_step, *(reached.get(block, cost.train_step) for block in range(model.num_blocks))]
    backward = np.array(ends[:-1], dtype=object) - ends[1:]
    by_kind = _by_kind(blocks)
    return cost, np.column_stack([by_kind, 2 * by_kind.sum(1) - backward])


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
    from tread_bench.measure.targets import open_targets  # imports all of timm, for a second

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
