"""MDT, deferred masking and ELIT against restatements from their papers, one sample in float64, with gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.backbones.restated import attend, image, layer_norm, linear, patches, self_attention, time_mlp
from tests.model.methods.subjects import batch_range, cell_of, inputs, network_of
from tread_bench.model.ops.patching import sincos_positions

TOKENS, HEADS = 16, 2
GROUPS = [[0, 4, 1, 5], [2, 6, 3, 7], [8, 12, 9, 13], [10, 14, 11, 15]]  # of 2 x 2 tokens; latents in this order


def condition(w, t, y):
    return time_mlp(w, "backbone.t_embedder", t) + w["backbone.y_embedder.embedding_table.weight"][y]


def embedded(w, spec, x):
    """The tokens before the first block, (N, D)."""
    return patches(w, "backbone.x_embedder", spec, x) + sincos_positions(spec.hidden, spec.grid).double()


def modulation(w, name, c, parts):
    return linear(w, name, F.silu(c)).chunk(parts)


def block(w, name, x, c, adaln="adaLN_modulation.1"):
    """An adaLN-Zero block."""
    shift1, scale1, gate1, shift2, scale2, gate2 = modulation(w, f"{name}.{adaln}", c, 6)
    x = x + gate1 * self_attention(w, f"{name}.attn", layer_norm(x, 1e-6) * (1 + scale1) + shift1, HEADS)
    hidden = F.gelu(linear(w, f"{name}.mlp.fc1", layer_norm(x, 1e-6) * (1 + scale2) + shift2), approximate="tanh")
    return x + gate2 * linear(w, f"{name}.mlp.fc2", hidden)


def blocks(w, numbers, x, c):
    for number in numbers:
        x = block(w, f"backbone.blocks.{number}", x, c)
    return x


def head(w, spec, x, c):
    """The image (C, H, W) of all tokens."""
    shift, scale = modulation(w, "backbone.final_layer.adaLN_modulation.1", c, 2)
    out = linear(w, "backbone.final_layer.linear", layer_norm(x, 1e-6) * (1 + scale) + shift)
    return image(spec, out)[: spec.channels]


def of_method(method, **keys):
    """A network whose every weight counts, its weights by name, and the batch, all in float64."""
    network = network_of(cell_of(method, **keys), perturbed=True).double()
    w = {name: p.detach().clone().requires_grad_() for name, p in network.named_parameters()}
    x, t, y = inputs()
    return network, w, (x.double(), t.double(), y)


def of_batch(restated, w, spec, batch, kept):
    return torch.stack([restated(w, spec, *sample) for sample in zip(*batch, kept, strict=True)])


def same_with_gradients(network, w, found, expected):
    """Also of a loss that weighs every output differently, relative to the largest gradient of a weight."""
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    target = torch.linspace(-1, 1, expected.numel(), dtype=torch.float64).view_as(expected)
    for outputs in (found, expected):
        (outputs - target).square().mean().backward()
    for name, p in network.named_parameters():
        ours, theirs = (torch.zeros_like(p) if one.grad is None else one.grad for one in (p, w[name]))
        assert (ours - theirs).abs().max() <= 1e-9 * max(1.0, float(theirs.abs().max())), name


def mdt(w, spec, x, t, y, kept):
    """All tokens but `kept` are masked; the last block decodes."""
    c = condition(w, t, y)
    tokens = blocks(w, range(4), embedded(w, spec, x)[kept], c)
    filled = w["method.mask_token.value"].expand(TOKENS, -1).index_put((kept,), tokens) + w["method.positions"]
    sideways = block(w, "method.interpolater", filled, c, adaln="modulation.linear")
    return head(w, spec, blocks(w, [4], sideways.index_put((kept,), filled[kept]), c), c)


def test_both_passes_of_mdt_are_those_of_the_restatement():
    network, w, batch = of_method("mdt", routes="0:3@0.75")
    prediction = network.train_forward(*batch, batch_range())
    every = torch.arange(TOKENS).expand(6, -1)
    masked = of_batch(mdt, w, network.spec, batch, prediction.kept[0])
    whole = of_batch(mdt, w, network.spec, batch, every)
    found = torch.stack([prediction.output, prediction.second])
    same_with_gradients(network, w, found, torch.stack([masked, whole]))


def deferred(w, spec, x, t, y, kept):
    """The prediction with 0 at the pixels of dropped tokens, and 1 at those of the tokens `kept`, else 0."""
    c = condition(w, t, y)
    mixed = linear(w, "method.mixer_input.1", layer_norm(embedded(w, spec, x), 1e-6))
    for number in range(2):
        mixed = block(w, f"method.mixer.{number}", mixed, c, adaln="modulation.linear")
    tokens = blocks(w, range(spec.depth), linear(w, "method.mixer_output.1", layer_norm(mixed[kept], 1e-6)), c)
    predicted = tokens.new_zeros(TOKENS, spec.hidden).index_put((kept,), tokens)
    is_kept = tokens.new_zeros(TOKENS, 1).index_put((kept,), tokens.new_ones(()))
    pixels = is_kept.expand(-1, spec.patch**2).view(*spec.grid, spec.patch, spec.patch).permute(0, 2, 1, 3)
    pixels = pixels.reshape(1, spec.image_size, spec.image_size)
    return torch.cat([head(w, spec, predicted, c) * pixels, pixels])


@pytest.mark.parametrize("routing", [1.0, 0.0])
def test_deferred_masking_is_that_of_the_restatement(routing):
    network, w, batch = of_method("deferred_masking", routes="0:-1@0.75")
    step = batch_range(routing=routing)
    drawn = network.method.draw(network.backbone, step, batch[0].device)
    kept = drawn[0] if routing else torch.arange(TOKENS).expand(6, -1)
    expected, pixels = of_batch(deferred, w, network.spec, batch, kept).split(1, dim=1)
    prediction = network.train_forward(*batch, step)
    assert prediction.kept == {}
    weight = torch.ones_like(pixels) if prediction.weight is None else prediction.weight
    assert (prediction.weight is None) == (routing == 0) and torch.equal(weight.double(), pixels)
    same_with_gradients(network, w, prediction.output * pixels.detach(), expected)


def crossed(w, name, x_TD, others_MD, c):
    """x + CA(LN(x); others), then x + MLP(LN(x)); reading is modulated, writing is not."""

    def normed_heads(part, tokens):
        heads = tokens.unflatten(1, (HEADS, -1))
        heads = heads / (heads.square().mean(2, keepdim=True) + 1e-6).sqrt() * w[f"{name}.{part}_norm.weight"]
        return heads.flatten(1)

    shift1, scale1, gate1, shift2, scale2, gate2 = (0, 0, 1) * 2
    if name == "method.read":
        shift1, scale1, gate1, shift2, scale2, gate2 = modulation(w, "method.read.modulation.linear", c, 6)
    queries = normed_heads("query", linear(w, f"{name}.query", layer_norm(x_TD, 1e-6) * (1 + scale1) + shift1))
    keys = normed_heads("key", linear(w, f"{name}.key", others_MD))
    mixed = attend(queries, keys, linear(w, f"{name}.value", others_MD), HEADS)
    x_TD = x_TD + gate1 * linear(w, f"{name}.proj", mixed)
    hidden = linear(w, f"{name}.mlp.fc1", layer_norm(x_TD, 1e-6) * (1 + scale2) + shift2)
    return x_TD + gate2 * linear(w, f"{name}.mlp.fc2", F.gelu(hidden, approximate="tanh"))


def elit(w, spec, x, t, y, kept):
    """With the first `kept` latents of every group."""
    c = condition(w, t, y)
    tokens = blocks(w, [0], embedded(w, spec, x), c)
    latents = torch.cat([crossed(w, "method.read", w["method.latents"][:kept], tokens[group], c) for group in GROUPS])
    latents = blocks(w, range(1, 4), latents, c)
    written = torch.empty_like(tokens)
    for group, own in zip(GROUPS, latents.split(kept), strict=True):
        written[group] = crossed(w, "method.write", tokens[group], own, c)
    return head(w, spec, blocks(w, [4], written, c), c)


def step_with(method, number):
    """The first training step for which ELIT draws this number of latents."""
    step = batch_range()
    while method.drawn_number(step) != number:
        step = batch_range(first=step.first + 6)
    return step


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_a_step_of_elit_is_that_of_the_restatement(kept):
    network, w, batch = of_method("elit", routes="1:3@0.75")
    output = network.train_forward(*batch, step_with(network.method, kept)).output
    same_with_gradients(network, w, output, of_batch(elit, w, network.spec, batch, [kept] * 6))


@pytest.mark.parametrize(("budget", "kept"), [(0.25, 1), (0.5, 2), (1.0, 4)])
def test_elit_is_evaluated_with_the_latents_of_its_budget_and_trained_with_all_of_them_without_routing(budget, kept):
    network, w, batch = of_method("elit", routes="1:3@0.75", options={"budget": budget})
    judged = of_batch(elit, w, network.spec, batch, [kept] * 6)
    torch.testing.assert_close(network(*batch), judged, rtol=1e-9, atol=1e-9)
    trained = network.train_forward(*batch, batch_range(routing=0.0)).output
    dense = of_batch(elit, w, network.spec, batch, [4] * 6)
    torch.testing.assert_close(trained, dense, rtol=1e-9, atol=1e-9)
