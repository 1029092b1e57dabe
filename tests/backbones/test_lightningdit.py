from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.backbones import networks
from tests.backbones.networks import inputs
from tread_bench import Route

FAMILY = "LightningDiT"
small = partial(networks.small, FAMILY)


TABLE = 1e-5  # the rotary table is made in fp32


def turned(x_BHKE, places_BK, columns):
    """RoPE on the grid, written out: channel pairs as complex numbers, the first half by row, the second by column."""
    quarter = x_BHKE.shape[-1] // 4
    frequencies = 10000 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
    rows, cols = places_BK // columns, places_BK % columns
    angle = torch.cat([rows[..., None] * frequencies, cols[..., None] * frequencies], dim=-1)[:, None]
    pairs = torch.view_as_complex(x_BHKE.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def attention_by_hand(attn, x_BKD, places_BK):
    """Softmax attention over the tokens at those places of the 4 x 4 grid."""
    batch, kept, width = x_BKD.shape
    q, k, v = (x_BKD @ attn.qkv.weight.T + attn.qkv.bias).reshape(batch, kept, 3, 2, 16).permute(2, 0, 3, 1, 4)
    q, k = turned(q, places_BK, 4), turned(k, places_BK, 4)
    weights = (q @ k.transpose(-1, -2) / 4).softmax(-1)
    return (weights @ v).transpose(1, 2).reshape(batch, kept, width) @ attn.proj.weight.T + attn.proj.bias


@pytest.mark.parametrize("attention", ["sdpa", "math"])
def test_kept_tokens_attend_from_their_places_on_the_full_grid(attention):
    model = small(kernels={"attention": attention}).double()
    x, t, y = inputs(dtype=torch.float64)
    ids = torch.rand(3, 16, generator=torch.Generator().manual_seed(0)).argsort(1)[:, :8].sort(1).values
    calls = []
    for block in model.blocks:
        block.attn.register_forward_hook(lambda attn, args, output: calls.append((attn, args[0], output)))
    model(x, t, y, routes=[Route(1, 2, 0.5)], ids=[ids])
    everywhere, first = torch.arange(16).expand(3, 16), torch.arange(8).expand(3, 8)
    for (attn, tokens, output), places in zip(calls, [everywhere, ids, ids, everywhere], strict=True):
        torch.testing.assert_close(output, attention_by_hand(attn, tokens, places), rtol=TABLE, atol=TABLE)
    attn, tokens, output = calls[1]
    assert (output - attention_by_hand(attn, tokens, first)).abs().max() > 1e-2, "the test cannot see the places"


@pytest.mark.parametrize("attention", ["sdpa", "math"])
def test_block_equals_its_written_out_formula(attention):
    model = small(kernels={"attention": attention}).double()
    block = model.blocks[0]
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(3, 16, 32, dtype=torch.float64, generator=generator)
    c = torch.randn(3, 32, dtype=torch.float64, generator=generator)

    def norm(x, layer):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * layer.weight

    def linear(x, layer):
        return x @ layer.weight.T + layer.bias

    places = torch.arange(16).expand(3, 16)
    modulation = linear(c * c.sigmoid(), block.adaLN_modulation[1])[:, None]
    shift1, scale1, gate1, shift2, scale2, gate2 = modulation.chunk(6, dim=-1)
    stream = x + gate1 * attention_by_hand(block.attn, norm(x, block.norm1) * (1 + scale1) + shift1, places)
    a, b = linear(norm(stream, block.norm2) * (1 + scale2) + shift2, block.mlp.w12).chunk(2, dim=-1)
    stream = stream + gate2 * linear(a * a.sigmoid() * b, block.mlp.w3)
    torch.testing.assert_close(block(x, c, model.rope), stream, rtol=TABLE, atol=TABLE)
