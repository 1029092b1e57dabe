"""Parameters and multiply-adds of a backbone and of what a method and losses add, counted on the meta device.

It knows shapes and holds no data. Elementwise work counts nothing. `core.numbers.costs` keeps what is counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Lora
from tread_bench.core.describe.families import BackboneSpec, Cost, Family, Macs
from tread_bench.core.describe.methods import Tokens
from tread_bench.core.describe.plugins import named
from tread_bench.core.describe.routes import ResolvedRoute, Route, RoutesLike
from tread_bench.core.numbers.costs import Counts, Extra, cost_of, counts_of
from tread_bench.measure.counter import MacsCounter
from tread_bench.model.adapters import add_adapters
from tread_bench.model.backbone import Backbone, TokenState, build_backbone, run_blocks
from tread_bench.model.losses.repa.family import IMAGE_CHANNELS
from tread_bench.model.methods.base import BatchRange, Images, Prediction, build_method
from tread_bench.model.network import Network
from tread_bench.model.ops.selecting import select


def count_backbone(family: Family, spec: BackboneSpec, lora: Lora | None) -> Counts | None:
    """Count a network with 0, 1 and 2 tokens that bypass all of its blocks.

    Returns:
        None if two more counts, of many bypassing tokens in all blocks and of a route over the blocks in the middle,
        are not what follows from the three: a block has windows or chunks, or computes something once for a route.
    """
    # Routes that keep the first tokens, whichever they are.
    tokens, depth = spec.num_tokens, family.num_blocks(spec)
    if tokens < 4:
        return None
    model = _on_meta(family, spec, lora)
    everywhere, middle = Route(0, depth - 1, 0.5).resolve(depth), Route(depth // 3, depth // 2, 0.5).resolve(depth)
    many = max(3, tokens // 2)
    ids = torch.arange(tokens, device="meta")[None]

    # Count. Without adapters, what no gradient is computed of does not depend on a route.
    try:
        dense, inputs = _count(model)
        rows = [[(*astuple(macs), of_block) for macs, of_block in zip(dense.blocks, inputs, strict=True)]]
        for n in (1, 2):
            cost, own = _count(model, [everywhere], [ids[:, n:]], backward=lora is not None)
            of_blocks = own if lora is not None else inputs
            rows.append([(*astuple(macs), of_block) for macs, of_block in zip(cost.blocks, of_blocks, strict=True)])
        routed = [_count(model, [route], [ids[:, many:]])[0] for route in (everywhere, middle)]
    except Exception:  # blocks that refuse a number of tokens say so where a route has it
        return None

    # Each block's polynomial, and whether it holds.
    counts = Counts(
        params=dense.params,
        trainable_params=dense.trainable_params,
        outside=dense.outside,
        inputs=dense.inputs - sum(inputs),
        blocks=tuple(zip(*rows, strict=True)),
    )
    bypassing = [[many * (block in route.blocks) for block in range(depth)] for route in (everywhere, middle)]
    return counts if [*map(counts.cost, bypassing)] == routed else None


def count_cost(
    family: Family, spec: BackboneSpec, routes: RoutesLike = (), selector: str = "random", lora: Lora | None = None
) -> Cost:
    """Count a network on these routes. With adapters, the backward pass has no gradient of a frozen weight, nor of any
    input before the first adapter.
    """
    resolved = family.resolve(spec, routes, selector)
    model = _on_meta(family, spec, lora)
    scores = torch.empty(1, spec.num_tokens, device="meta")
    kept = [select(selector, scores, spec.grid, route.kept(spec.num_tokens)) for route in resolved]
    return _count(model, resolved, kept)[0]


def count_parameters(family: Family, spec: BackboneSpec) -> int:
    """Count the parameters of a backbone."""
    return _num_parameters(_on_meta(family, spec))


def _on_meta(family: Family, spec: BackboneSpec, lora: Lora | None = None) -> Backbone:
    with torch.device("meta"):
        model = build_backbone(family, spec, {"attention": "math"})
        if lora is not None:
            add_adapters(model, lora, seed=0)
    return model


def _count(
    model: Backbone, routes: Sequence[ResolvedRoute] = (), ids: Sequence[Tensor] = (), backward: bool = True
) -> tuple[Cost, list[int]]:
    """Count one image's forward pass, block by block and by kind, and its backward pass.

    Returns:
        The cost, and each block's part of `Cost.inputs`.
    """
    counter = MacsCounter()
    blocks: list[Macs] = []
    reached: dict[int, int] = {}  # MACs so far where a gradient reaches a block: autograd runs the last operation first

    def note(block: int, _: Tensor) -> None:
        reached.setdefault(block, counter.macs.total)

    def run_block(block: int, state: TokenState) -> TokenState:
        before = counter.macs
        state = type(model).run_block(model, block, state)
        blocks.append(counter.macs - before)
        for stream in state.streams.values():
            if stream.requires_grad:
                stream.register_hook(partial(note, block))
        return state

    model.run_block = run_block  # type: ignore[method-assign]
    start = partial(model.start, *_inputs(model.spec))
    cost = count_passes(model, counter, lambda: model.finish(run_blocks(model, start(), routes, ids)), blocks, backward)
    ends = [cost.train_step, *(reached.get(block, cost.train_step) for block in range(len(blocks)))]
    inputs = [2 * block.total - (end - start) for block, (end, start) in zip(blocks, pairwise(ends), strict=True)]
    return cost, inputs


def count_passes(
    network: nn.Module,
    counter: MacsCounter,
    forward: Callable[[], Tensor],
    blocks: Sequence[Macs],
    backward: bool = True,
) -> Cost:
    """Count a forward and a backward pass of a network, while somebody notes the cost of each of its blocks."""
    with counter:
        output = forward()
        one_pass = counter.macs
        if backward:
            output.sum().backward()
    return Cost(
        params=_num_parameters(network),
        trainable_params=sum(p.numel() for p in network.parameters() if p.requires_grad),
        blocks=tuple(blocks),
        outside=one_pass - sum(blocks, Macs()),
        inputs=3 * one_pass.total - counter.macs.total,
    )


def count_added(cell: Cell, share: float) -> Extra:
    """Count what a cell's method and auxiliary losses add to its backbone in a training step at a share of the rates.

    It is the mean over the method's alternatives. Where all tokens of a sample skip blocks, it is counted of one that
    passes them.
    """
    # Its network. Losses may read files, so that they are built with values first.
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    with torch.device("meta"):
        model = build_backbone(family, spec, {"attention": "math"}, objective=cell.objective)
        method = build_method(cell, model)
    losses = [named(loss.family.builder)(loss, cell, model).to("meta") for loss in cell.auxiliary]
    network = Network(model, method, losses)
    blocks = _BlocksAsCounted(network.backbone)
    share = 0.0 if cell.method.family.tokens is Tokens.SKIP_AS_A_WHOLE else share

    # A forward and a backward pass for each alternative, less those of the backbone alone.
    forward, train_step = Macs(), 0
    alternatives = cell.method.alternatives(cell.routes, spec.num_tokens)
    for number, routes in enumerate(alternatives):
        chosen = number if len(alternatives) > 1 else None
        batch_range = BatchRange(seed=0, first=0, count=1, routing=share, alternative=chosen)
        blocks.macs = Macs()
        counter = MacsCounter()
        with counter:
            prediction = network.train_forward(*_inputs(spec), batch_range)
            passed = counter.macs + blocks.macs
            outputs = [prediction.output, *([] if prediction.second is None else [prediction.second])]
            with torch.device("meta"):
                terms = network.auxiliary_losses(prediction, _images(spec, prediction))
            sum(terms, torch.stack(outputs).sum()).backward()
        alone = cost_of(family, spec, [route.at_share(share) for route in routes], cell.selector)
        forward += passed - alone.forward
        train_step += counter.macs.total + 3 * blocks.macs.total - alone.train_step

    # The method's parameters, without those of a last layer that it does not use.
    return Extra(
        params=_num_parameters(method),
        removed_params=_num_parameters(model) - _num_parameters(network.backbone),
        loss_params=sum(map(_num_parameters, losses)),
        forward=Macs(*(round(count / len(alternatives)) for count in astuple(forward))),
        train_step=round(train_step / len(alternatives)),
    )


class _BlocksAsCounted:
    """Blocks that compute nothing, where their cost is known from their tokens: a large network is counted in a moment.

    Args:
        model: on the meta device; its blocks pass on their tokens, and the gradients of all that they would read.

    `macs` is the cost of all calls so far, a forward pass each.
    """

    def __init__(self, model: Backbone) -> None:
        self.macs = Macs()
        self.counts = counts_of(model.family, model.spec)
        if self.counts is not None:
            model.run_block = self._run_block  # type: ignore[method-assign]

    def _run_block(self, block: int, state: TokenState) -> TokenState:
        assert self.counts is not None
        self.macs += self.counts.block(block, state.num_prefix + state.num_tokens - state.stream().shape[1])
        unrouted = (state.streams[name] for name in state.unrouted)
        read = [part.sum() for part in (state.c, state.context, *unrouted) if part is not None]
        return state.with_streams(**{name: sum(read, stream) for name, stream in state.streams.items()})


def _images(spec: BackboneSpec, prediction: Prediction) -> Images:
    """What losses compare a prediction with; beside latents, images of three channels."""
    x, _, _ = _inputs(spec)
    pictures = None if spec.channels in IMAGE_CHANNELS else torch.empty(1, 3, spec.image_size, spec.image_size)
    return Images(x, x, prediction.output[:, : spec.channels], pictures)


def _num_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def count_evaluated(cell: Cell, shallow: bool = False) -> Macs:
    """Count one image's forward pass as the method is evaluated, or along its shallow path, on the meta device."""
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    with torch.device("meta"), torch.no_grad():
        backbone = build_backbone(family, spec, {"attention": "math"}, objective=cell.objective)
        method = build_method(cell, backbone)
        blocks = _BlocksAsCounted(backbone)
        with MacsCounter() as counter:
            start = backbone.start(*_inputs(spec))
            forward = method.shallow_forward if shallow else method.eval_forward
            forward(backbone, start)
    return counter.macs + blocks.macs


def _inputs(spec: BackboneSpec) -> tuple[Tensor, Tensor, Tensor | None]:
    """One image, its time, and its text or label, on the meta device."""
    with torch.device("meta"):
        x, t = torch.empty(1, spec.channels, spec.image_size, spec.image_size), torch.empty(1)
        if spec.context_shape is not None:
            return x, t, torch.empty(1, *spec.context_shape)
        return x, t, torch.zeros(1, dtype=torch.long) if spec.num_classes else None
