"""Deferred masking against a restatement from its paper, its limit, its cost, and what it refuses."""

from __future__ import annotations

import pytest
import torch

from tests.backbones.restated import layer_norm, linear
from tests.model.methods.restated_dit import block, condition, embedded, head, same_gradients, weights_of
from tests.model.methods.subjects import batch_range, cell_of, inputs, network_of
from tread_bench.cell.step import weighted_mean
from tread_bench.core.numbers.cell_costs import cell_cost
from tread_bench.core.numbers.costs import cost_of

WIDTH, TOKENS, MIXER = 16, 16, 24


def restated(w, spec, x, t, y, kept):
    """The prediction (C, H, W) of one sample that keeps the tokens `kept`, and 1 at their pixels, else 0."""
    c = condition(w, t, y)
    mixed = linear(w, "method.mixer_input.1", layer_norm(embedded(w, spec, x), 1e-6))
    for number in range(2):
        mixed = block(w, f"method.mixer.{number}", mixed, c, 2, adaln="modulation.linear")
    tokens = linear(w, "method.mixer_output.1", layer_norm(mixed[kept], 1e-6))
    for number in range(spec.depth):
        tokens = block(w, f"backbone.blocks.{number}", tokens, c, spec.heads)
    predicted = torch.zeros(spec.num_tokens, spec.hidden, dtype=torch.float64)
    is_kept = torch.zeros(spec.num_tokens, 1, dtype=torch.float64)
    predicted[kept] = tokens
    is_kept[kept] = 1
    pixels = is_kept.expand(-1, spec.patch**2).view(*spec.grid, spec.patch, spec.patch).permute(0, 2, 1, 3)
    return head(w, spec, predicted, c), pixels.reshape(1, spec.image_size, spec.image_size)


@pytest.mark.parametrize("routing", [1.0, 0.0])
def test_a_step_and_its_gradients_are_those_of_the_restatement(routing):
    cell = cell_of("deferred_masking", routes="0:-1@0.75")
    network = network_of(cell, perturbed=True).double()
    x, t, y = inputs()
    step = batch_range(routing=routing)
    drawn = network.method.draw(network.backbone, step, x.device)
    kept = drawn[0] if routing else torch.arange(TOKENS).expand(len(x), -1)
    w = weights_of(network)
    parts = [restated(w, network.spec, x[n].double(), t[n].double(), y[n], kept[n]) for n in range(6)]
    expected, pixels = map(torch.stack, zip(*parts, strict=True))

    prediction = network.train_forward(x.double(), t.double(), y, step)
    assert (prediction.weight is None) == (routing == 0) and prediction.kept == {}
    torch.testing.assert_close(prediction.output * pixels, expected * pixels, rtol=1e-9, atol=1e-9)

    target = torch.linspace(-1, 1, expected.numel(), dtype=torch.float64).view_as(expected)
    weighted_mean((prediction.output - target).square(), prediction.weight).backward()
    ((expected - target).square() * pixels).sum().div(pixels.sum()).backward()
    same_gradients(network, w)


def test_a_dropped_token_has_its_part_through_the_mixer():
    network = network_of(cell_of("deferred_masking"), perturbed=True)
    x, t, y = inputs()
    x.requires_grad_()
    prediction = network.train_forward(x, t, y, batch_range())
    (gradient,) = torch.autograd.grad((prediction.output * prediction.weight).square().sum(), x)
    assert ((gradient * (1 - prediction.weight)).flatten(1).abs().amax(1) > 0).all()


@pytest.mark.parametrize("width", [MIXER, WIDTH])
def test_it_costs_a_mixer_over_all_tokens_and_linear_layers_between_different_widths(width):
    options = {"mixer_width": width, "mixer_depth": 2, "mixer_heads": 2}
    cell = cell_of("deferred_masking", options=options)
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    cost, routed, dense = cell_cost(cell), cost_of(family, spec, cell.routes), cost_of(family, spec)
    mixer = 2 * (TOKENS * 12 * width**2 + 2 * TOKENS**2 * width + 6 * width * WIDTH)  # linear; attention; adaLN
    between = WIDTH * width * (width != WIDTH)
    assert cost.forward_macs == routed.forward.total + mixer + (TOKENS + TOKENS // 2) * between
    assert cost.evaluated_forward_macs == dense.forward.total + mixer + 2 * TOKENS * between
    assert cost.train_step_macs == routed.train_step + 3 * (cost.forward_macs - routed.forward.total)
    block_params = 12 * width**2 + 9 * width + 6 * width * (WIDTH + 1)
    assert cost.method_params == 2 * block_params + 2 * between + (width + WIDTH) * (width != WIDTH)
