"""A transformer of diffusers, wrapped: its own weights and its own blocks, routed."""

from __future__ import annotations

from math import isqrt

import pytest
import torch
from torch.nn.functional import silu

from tread_bench import RoutedNetwork
from tread_bench.contract import check_wrapped

diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed; nothing in this package needs it")

BLOCKS, TOKENS = 6, 16


def wrapped(transformer):
    return RoutedNetwork(
        transformer,
        embed=lambda net, x, t, y: (net.pos_embed(x), t, y),
        blocks=lambda net: net.transformer_blocks,
        call=lambda net, block, tokens, t, y: block(tokens, timestep=t, class_labels=y),
        head=head,
    )


def head(net, tokens, t, y):
    """Step 3 of `DiTTransformer2DModel.forward`."""
    condition = net.transformer_blocks[0].norm1.emb(t, y, hidden_dtype=tokens.dtype)
    shift, scale = net.proj_out_1(silu(condition)).chunk(2, dim=1)
    patches = net.proj_out_2(net.norm_out(tokens) * (1 + scale[:, None]) + shift[:, None])
    side, patch = isqrt(tokens.shape[1]), net.patch_size
    grid = patches.reshape(-1, side, side, patch, patch, net.out_channels)
    return grid.permute(0, 5, 1, 3, 2, 4).reshape(-1, net.out_channels, side * patch, side * patch)


@pytest.fixture
def transformer():
    torch.manual_seed(0)
    net = diffusers.DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=16,
        num_layers=BLOCKS,
        sample_size=8,
        patch_size=2,
        num_embeds_ada_norm=10,
        out_channels=8,
    )
    return net.eval()  # in training mode each of its blocks drops labels at random


def inputs():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(3, 4, 8, 8, generator=generator), torch.tensor([1, 500, 999]), torch.tensor([0, 3, 9])


@pytest.mark.parametrize("training", [False, True])
def test_dense_it_is_the_transformer_bit_for_bit_with_its_own_parameters(transformer, training):
    routed = wrapped(transformer).train(training)
    torch.manual_seed(1)
    expected = transformer(*inputs()).sample
    torch.manual_seed(1)
    assert torch.equal(routed(*inputs()), expected)
    assert [id(p) for p in routed.parameters()] == [id(p) for p in transformer.parameters()]


def test_it_keeps_to_the_checks_of_a_wrapped_network(transformer):
    assert check_wrapped(wrapped(transformer), *inputs(), original=lambda x, t, y: transformer(x, t, y).sample) == []
