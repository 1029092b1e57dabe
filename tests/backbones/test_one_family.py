"""What holds of one family, beside its network written out."""

from __future__ import annotations

import pytest
import torch

from tests.backbones.networks import SMALL, TEXT, inputs, small
from tread_bench import Route, create_backbone
from tread_bench.backbones.dit.network import LinearAttention
from tread_bench.core.describe.families import find_family, make_spec
from tread_bench.core.numbers.costs import cost_figures, cost_of


def test_a_routed_dit_xl_costs_what_the_method_says():
    cost = cost_figures(*make_spec("DiT-XL/2"), [Route(2, -4, 0.5)])
    assert cost.forward_macs / cost.dense_forward_macs == pytest.approx(0.583, abs=5e-4)
    assert cost.tokens_per_block == [256] * 2 + [128] * 23 + [256] * 3


def test_dit_s_linear_attention_survives_queries_without_weight():
    layer = LinearAttention(12, num_heads=3)
    torch.nn.init.constant_(layer.qkv.bias, -100)
    x = torch.randn(2, 7, 12, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    y.float().sum().backward()
    assert y.isfinite().all() and x.grad.isfinite().all()


def test_scans_of_dis_cost_three_macs_per_token_channel_and_state_of_both_directions():
    family, spec = make_spec("Mamba", **SMALL["DiS"])
    assert [block.scan for block in cost_of(family, spec).blocks] == [2 * 3 * 18 * 32 * 16] * 5


@pytest.mark.parametrize(
    ("name", "params"),
    [("DiG-S/2", 33_081_632), ("DiG-B/2", 130_748_192), ("DiG-L/2", 465_022_496), ("DiG-XL/2", 675_953_952)],
)
def test_published_sizes_of_dig_have_the_parameters_of_the_release(name, params):
    family, spec = make_spec(name)
    cost = cost_of(family, spec)
    assert cost.params == params and cost.params - cost.trainable_params == 256 * spec.hidden
    assert cost.forward.scan == spec.depth * 256 * 3 * (spec.hidden // 2) * (spec.hidden // spec.heads)


def test_labels_join_the_tokens_of_jit_where_its_release_says():
    assert [find_family(f"JiT-{size}/16")[1]["in_context_start"] for size in "BLH"] == [4, 8, 10]


def test_dit_with_text_costs_a_cross_attention_per_block_and_one_projection():
    sizes = {"depth": 1, "hidden": 8, "heads": 2, "patch": 1, "image_size": 2, "channels": 1, "num_classes": 0}
    plain, text = (cost_of(*make_spec("DiT", **sizes, context_tokens=m, context_dim=6)) for m in (0, 3))
    # 4 tokens to queries and from outputs, 3 of text to keys and values; each product 4 x 3 x 8
    assert text.blocks[0].linear - plain.blocks[0].linear == 8 * 8 * (2 * 4 + 2 * 3)
    assert text.blocks[0].attention - plain.blocks[0].attention == 2 * 4 * 3 * 8
    assert text.outside.linear - plain.outside.linear == text.inputs - plain.inputs == 3 * 6 * 8
    assert text.params - plain.params == 4 * (8 * 8 + 8) + (6 * 8 + 8)


def test_dis_s_residual_stream_is_the_sum_of_both_and_stays_in_float32():
    model, states = small("DiS"), {}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(*inputs(), on_block=states.__setitem__)
    for state in states.values():
        assert state.streams["hidden"].dtype is torch.bfloat16
        assert state.streams["residual"].dtype is torch.float32
        assert torch.equal(state.stream(), state.streams["hidden"] + state.streams["residual"])


def test_convolutions_of_dig_begin_as_the_identity():
    model = create_backbone("DiG", seed=0, **SMALL["DiG"])
    state = model.start(*inputs())
    tokens = state.streams["x"]
    torch.testing.assert_close(model.blocks[1].convolve(tokens, state), tokens, rtol=2**-22, atol=0)


@pytest.mark.parametrize("sizes", [{}, TEXT["ZigMa"]], ids=["labels", "text"])
def test_gates_and_positions_of_zigma_begin_at_zero(sizes):
    model = create_backbone("ZigMa", **{**SMALL["ZigMa"], **sizes})
    assert model.pos_embed is None or not model.pos_embed.any()
    for block in model.blocks:
        assert not block.adaLN_modulation[1].weight.any() and not block.adaLN_modulation[1].bias.any()
        assert block.mixer.out_proj.weight.any()
    assert model.final_layer.linear.weight.any()


@pytest.mark.parametrize(
    ("sizes", "y", "rule"),
    [
        (TEXT["U-ViT"], None, r"y is missing; this model takes text: features \(B, M, E\) = \(3, 5, 6\)"),
        (TEXT["U-ViT"], torch.zeros(3, 5, 6, dtype=torch.long), r"y is \(3, 5, 6\) int64; this model takes text"),
        (TEXT["U-ViT"], torch.zeros(3, 4, 6), r"y is \(3, 4, 6\) float32; this model takes text"),
        ({}, torch.zeros(3, 5, 6), r"y is \(3, 5, 6\) float32; this model takes labels: \(B,\) = \(3,\) long, 0 to 10"),
        ({"num_classes": 0}, torch.zeros(3, 5, 6), "unconditional"),
    ],
)
def test_a_condition_of_another_kind_or_shape_is_refused(sizes, y, rule):
    x, t, _ = inputs()
    with pytest.raises(ValueError, match=rule):
        small("U-ViT", **sizes)(x, t, y)
