"""MDT against a restatement from its paper, its limits, its cost, and what it refuses."""

from __future__ import annotations

import torch

from tests.model.methods.restated_dit import block, condition, embedded, head, same_gradients, weights_of
from tests.model.methods.subjects import batch_range, cell_of, inputs, network_of, trainer_of
from tread_bench.core.numbers.cell_costs import cell_cost
from tread_bench.core.numbers.costs import cost_of

WIDTH, TOKENS, PIXELS, DECODER = 16, 16, 4, 4  # values of a patch; the last block decodes: it is number 4


def restated(w, spec, x, t, y, kept):
    """The prediction (C, H, W) of one sample with all tokens but `kept` masked."""
    c = condition(w, t, y)
    tokens = embedded(w, spec, x)[kept]
    for number in range(DECODER):
        tokens = block(w, f"backbone.blocks.{number}", tokens, c, spec.heads)
    filled = w["method.mask_token.value"].expand(TOKENS, -1).index_put((kept,), tokens) + w["method.positions"]
    sideways = block(w, "method.interpolater", filled, c, 2, adaln="modulation.linear")
    decoded = sideways.index_put((kept,), filled[kept])
    for number in range(DECODER, spec.depth):
        decoded = block(w, f"backbone.blocks.{number}", decoded, c, spec.heads)
    return head(w, spec, decoded, c)


def test_both_passes_and_their_gradients_are_those_of_the_restatement():
    network = network_of(cell_of("mdt", routes="0:3@0.75"), perturbed=True).double()
    x, t, y = inputs()
    prediction = network.train_forward(x.double(), t.double(), y, batch_range())
    w, kept = weights_of(network), prediction.kept[0]
    everything = torch.arange(TOKENS)
    masked, whole = (
        torch.stack([restated(w, network.spec, x[n].double(), t[n].double(), y[n], ids[n]) for n in range(6)])
        for ids in (kept, everything.expand(6, -1))
    )
    torch.testing.assert_close(prediction.output, masked, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(prediction.second, whole, rtol=1e-9, atol=1e-9)
    target = torch.linspace(-1, 1, masked.numel(), dtype=torch.float64).view_as(masked)
    for outputs in ((prediction.output, prediction.second), (masked, whole)):
        sum((one - target).square().mean() for one in outputs).backward()
    same_gradients(network, w)


def test_the_loss_is_the_sum_of_those_of_both_passes():
    trainer = trainer_of(cell_of("mdt"), perturbed=True)
    batch = trainer.batch(0)
    with torch.no_grad():
        loss = trainer.loss(batch)
        x_t = trainer.objective.corrupt(batch.x, batch.noise, batch.t)
        prediction = trainer.network.train_forward(x_t, batch.t, batch.y, batch.range)
        velocity = batch.noise - batch.x
        expected = sum((one - velocity).square().mean() for one in (prediction.output, prediction.second))
        whole = trainer.network(x_t, batch.t, batch.y)
    torch.testing.assert_close(loss, expected)
    assert torch.equal(prediction.second, whole), "the pass over all tokens is what is evaluated"


def test_a_step_costs_both_passes_and_an_interpolater_over_all_tokens():
    cell = cell_of("mdt")
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    cost, routed, dense = cell_cost(cell), cost_of(family, spec, cell.routes), cost_of(family, spec)
    interpolater = TOKENS * 12 * WIDTH**2 + 2 * TOKENS**2 * WIDTH + 6 * WIDTH * WIDTH
    blocks = sum(one.total for one in dense.blocks)
    last_layer = TOKENS * WIDTH * 2 * PIXELS + 2 * WIDTH**2  # of DiT, which also predicts a variance
    assert cost.forward_macs == routed.forward.total + blocks + last_layer + interpolater
    assert cost.train_step_macs == routed.train_step + 3 * (blocks + last_layer + interpolater)
    assert cost.evaluated_forward_macs == dense.forward.total
    assert cost.method_params == 12 * WIDTH**2 + 9 * WIDTH + 6 * WIDTH * (WIDTH + 1) + WIDTH + TOKENS * WIDTH
