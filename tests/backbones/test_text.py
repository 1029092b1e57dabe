"""Networks that take captions, beside their forward passes written out."""

from __future__ import annotations

import pytest
import torch

from tests.backbones.networks import SMALL, TEXT, text_inputs
from tread_bench import create_backbone
from tread_bench.model.backbone import run_blocks


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
