"""What a step keeps for its backward pass, against closed forms and against what the allocator still holds."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from tests.model.methods.subjects import cell_of
from tread_bench.backbones.dit.family import DiTSpec
from tread_bench.backbones.dit.network import Block, CompiledBlock
from tread_bench.cell.step import ForwardPass
from tread_bench.core.config.compute import StepOptions
from tread_bench.data.open import open_data
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure.speed.activations import Activations, count_activations
from tread_bench.model.backbone import build_backbone
from tread_bench.model.network import build_network

FLOAT = 4  # bytes
B, N, D, H = 3, 16, 32, 4  # samples, tokens, width, heads
PLAIN = {"attention": "math", "adaln": "torch", "scan": "torch", "wkv": "torch"}
COMPILED = {"attention": "math", "adaln": "numba", "scan": "numba", "wkv": "numba"}


def step_of(cell, kernels=PLAIN, **options):
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    network = build_network(cell, build_backbone(family, spec, kernels, 0), 0)
    objective, data = build_objective(cell.objective), open_data(cell.data)
    return ForwardPass(cell, 0, network, objective, data, torch.device("cpu"), StepOptions(**options))


def activations_of(step):
    batch = step.batch(0)
    return count_activations(step.network, lambda: step.loss(batch))


def test_what_the_backward_pass_reads_is_kept_once_and_parameters_never():
    # The sum keeps nothing, and the layer's output is gone: ReLU needs its result alone.
    network, x = nn.Sequential(nn.Linear(5, 7), nn.ReLU()), torch.ones(11, 5, requires_grad=True)
    assert count_activations(network, lambda: network(x).sum()) == Activations((5 + 7) * 11 * FLOAT, 0)

    # Views share a storage, and what leads to nothing is not kept.
    layer = nn.Linear(5, 5, bias=False)

    def loss():
        layer(x.exp()).exp()
        return (x * x.view(11, 5) * layer.weight[0]).sum()

    assert count_activations(layer, loss).kept == 2 * 11 * 5 * FLOAT  # x, and x * x


@pytest.mark.parametrize(
    ("kind", "tokens", "conditions"),
    [
        # Tokens: x; normed, modulated, q, k, v, joined and the update; x again; normed, modulated, 4 + 4 of the MLP,
        # and the update. Conditions: c, silu(c), both 1 + scale, and the modulation.
        pytest.param(Block, 1 + 7 + 1 + 2 + 4 + 4 + 1, 1 + 1 + 2 + 6, id="modules"),
        # The same without what is normed before it is modulated, and without 1 + scale.
        pytest.param(CompiledBlock, 1 + 6 + 1 + 1 + 4 + 4 + 1, 1 + 1 + 6, id="compiled"),
    ],
)
def test_a_block_keeps_what_its_formula_says(kind, tokens, conditions):
    """In widths of each token and each sample; two numbers per token of each norm, and attention's weights."""
    block = kind(DiTSpec(depth=1, hidden=D, heads=H, patch=2, image_size=8, channels=1, num_classes=10), False)
    x, c = torch.ones(B, N, D, requires_grad=True), torch.ones(B, D, requires_grad=True)
    counted = count_activations(block, lambda: block(x, c).sum()).kept
    assert counted == FLOAT * B * (tokens * N * D + 4 * N + H * N * N + conditions * D)


@pytest.mark.plain_bits
@pytest.mark.parametrize(
    ("family", "kernels"), [("DiT", PLAIN), ("U-ViT", PLAIN), ("DRWKV", PLAIN), ("DiT", COMPILED), ("DRWKV", COMPILED)]
)
def test_the_allocator_still_holds_as_much_after_the_forward_pass(family, kernels):
    step = step_of(cell_of("tread", family), kernels)
    counted = activations_of(step).kept
    batch = step.batch(0)
    step.loss(batch)  # so that what is made once is there
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        loss = step.loss(batch)
    held = sum(event.self_cpu_memory_usage for event in profiled.events())
    assert loss.requires_grad and counted == pytest.approx(held, rel=0.05)


@pytest.mark.parametrize(("family", "method"), [("DiT", "mask"), ("U-ViT", "tread"), ("DRWKV", "sprint")])
def test_checkpointing_keeps_inputs_and_computes_one_block_again(family, method):
    """What it keeps and the block add up to less; a block adds what it keeps when nothing is computed again."""
    cell = cell_of(method, family)
    whole, part = activations_of(step_of(cell)), activations_of(step_of(cell, gradient_checkpointing=True))
    assert whole.recomputed == 0 < part.recomputed
    assert part.kept < sum(part) < whole.kept
    blocks = step_of(cell).network.num_blocks + 2  # and a decoder's
    assert part.kept + blocks * part.recomputed >= whole.kept
