"""Networks that take captions: forward and gradients against a restatement, and what of a text a route leaves alone."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.backbones.networks import ROUTES, SMALL, TEXT, drawn, present, small, text_inputs
from tests.backbones.restated import RESTATED
from tread_bench import create_backbone
from tread_bench.core.describe.families import make_spec
from tread_bench.core.numbers.costs import cost_of
from tread_bench.model.backbone import run_blocks

CASES = [(family, routes) for family in RESTATED for routes in ([], *ROUTES[family])]


@pytest.mark.parametrize("attention", ["sdpa", "math"])
@pytest.mark.parametrize(("family", "routes"), CASES, ids=str)
def test_forward_and_every_gradient_are_those_of_the_network_written_out(family, routes, attention):
    model = small(family, **TEXT[family], kernels={"attention": attention}).double().train()
    x, t, text = text_inputs(dtype=torch.float64)
    ids, prefix = drawn(routes), model.family.num_prefix(model.spec)
    weights = {name: p.detach().clone().requires_grad_(p.requires_grad) for name, p in model.named_parameters()}
    outputs = []
    for sample in range(len(x)):
        seen = partial(present, routes, ids, sample=sample, prefix=prefix)
        outputs.append(RESTATED[family](weights, model.spec, x[sample], t[sample], text[sample], seen))
    expected, computed = torch.stack(outputs), model(x, t, text, routes=routes, ids=ids)
    assert (computed - expected).abs().max() <= 1e-9

    weighting = torch.linspace(-1, 1, x.numel(), dtype=torch.float64).view_as(x)
    for output in (expected, computed):
        (output * weighting).sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert (parameter.grad - weights[name].grad).abs().max() <= 1e-9, name


@pytest.mark.parametrize("family", ["DiT", "SiT", "LightningDiT"])
def test_at_first_the_text_changes_nothing_and_is_no_part_of_c(family):
    sizes = {**SMALL["LightningDiT"], **TEXT["DiT"]}
    model, (x, t, text) = create_backbone(family, seed=0, **sizes), text_inputs()
    states = [model.start(x, t, y) for y in (text, -text)]
    assert torch.equal(states[0].c, states[1].c) and torch.equal(states[0].c, model.t_embedder(t))
    assert not torch.equal(states[0].context, states[1].context)
    for block in model.blocks:
        assert not block.cross_attn.to_out[0].weight.any() and not block.cross_attn.to_out[0].bias.any()
        assert block.cross_attn.to_q.weight.any()
    after = [run_blocks(model, state).streams["x"] for state in states]
    assert torch.equal(*after)


def test_a_text_dit_shares_the_weights_of_one_without_text():
    plain, text = (create_backbone("DiT", seed=3, **{**SMALL["DiT"], **sizes}) for sizes in ({}, TEXT["DiT"]))
    shared = dict(plain.named_parameters()).keys() & dict(text.named_parameters()).keys()
    assert len(shared) == len(dict(plain.named_parameters())) - 1  # without the label table
    for name in shared:
        assert torch.equal(plain.get_parameter(name), text.get_parameter(name))


def test_the_compiled_block_is_not_used_where_there_is_text():
    """It has no attention to a text, so that blocks run as modules, whatever kernel is asked for."""
    inputs, predictions = text_inputs(), []
    for kernel in ("torch", "numba"):
        model = small("DiT", **TEXT["DiT"], kernels={"attention": "math", "adaln": kernel})
        predictions.append(model(*inputs))
    assert torch.equal(*predictions)
    labelled = small("DiT", kernels={"attention": "math", "adaln": "numba"})
    assert type(labelled.blocks[0]) is not type(model.blocks[0])


def test_dit_with_text_costs_a_cross_attention_per_block_and_one_projection():
    sizes = {"depth": 1, "hidden": 8, "heads": 2, "patch": 1, "image_size": 2, "channels": 1, "num_classes": 0}
    plain, text = (cost_of(*make_spec("DiT", **sizes, context_tokens=m, context_dim=6)) for m in (0, 3))
    # 4 tokens to queries and from outputs, 3 of text to keys and values; each product 4 x 3 x 8
    assert text.blocks[0].linear - plain.blocks[0].linear == 8 * 8 * (2 * 4 + 2 * 3)
    assert text.blocks[0].attention - plain.blocks[0].attention == 2 * 4 * 3 * 8
    assert text.outside.linear - plain.outside.linear == text.inputs - plain.inputs == 3 * 6 * 8
    assert text.params - plain.params == 4 * (8 * 8 + 8) + (6 * 8 + 8)
