from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from tests.backbones import networks
from tests.backbones.networks import assert_is_by_hand, drawn, inputs, present
from tests.backbones.restated import attend, image, linear, time_mlp
from tests.backbones.test_lightningdit import turned
from tread_bench import Route
from tread_bench.core.describe.families import find_family, make_spec
from tread_bench.model.ops.patching import sincos_positions

FAMILY = "JiT"
small = partial(networks.small, FAMILY)


def rms(x, gain):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain


def rotated(x_TD, heads, gain, places):
    """Every head's normed channels, turned by their token's place; those of in-context tokens, place -1, are not."""
    heads_T = rms(x_TD.unflatten(1, (heads, -1)), gain).transpose(0, 1)[None]  # (1, heads, T, E)
    at = torch.tensor(places)[None]
    return torch.where(at[:, None, :, None] < 0, heads_T, turned(heads_T, at, 4))[0].transpose(0, 1).flatten(1)


def by_hand(model, x, t, y, routes, ids):
    """The network from its paper, for one sample at a time; -1 is the place of an in-context token."""
    w, spec, outputs = dict(model.named_parameters()), model.spec, []
    for n in range(len(x)):
        label = w["y_embedder.embedding_table.weight"][y[n]]
        c = F.silu(time_mlp(w, "t_embedder", t[n]) + label)
        cut = x[n].unfold(1, 2, 2).unfold(2, 2, 2).permute(1, 2, 0, 3, 4).flatten(2).flatten(0, 1)
        narrow = cut @ w["x_embedder.proj1.weight"].flatten(1).T
        stream = narrow @ w["x_embedder.proj2.weight"].flatten(1).T + w["x_embedder.proj2.bias"]
        stream = stream + sincos_positions(spec.hidden, spec.grid)
        in_context = label + w["in_context_posemb"][0]
        for block in range(spec.depth):
            name, at, joined = f"blocks.{block}", present(routes, ids, block, n), block >= spec.in_context_start
            places = [-1] * len(in_context) * joined + at
            part = torch.cat([in_context, stream[at]]) if joined else stream[at]
            modulation = linear(w, f"{name}.adaLN_modulation.1", c).chunk(6)
            shift1, scale1, gate1, shift2, scale2, gate2 = modulation
            asked = rms(part, w[f"{name}.norm1.weight"]) * (1 + scale1) + shift1
            q, k, v = linear(w, f"{name}.attn.qkv", asked).chunk(3, dim=1)
            q, k = (rotated(z, 2, w[f"{name}.attn.{m}_norm.weight"], places) for z, m in ((q, "q"), (k, "k")))
            part = part + gate1 * linear(w, f"{name}.attn.proj", attend(q, k, v, 2))
            gate, value = linear(
                w, f"{name}.mlp.w12", rms(part, w[f"{name}.norm2.weight"]) * (1 + scale2) + shift2
            ).chunk(2, dim=1)
            part = part + gate2 * linear(w, f"{name}.mlp.w3", F.silu(gate) * value)
            if joined:
                in_context, part = part[: len(in_context)], part[len(in_context) :]
            stream = stream.index_put((torch.tensor(at),), part)
        shift, scale = linear(w, "final_layer.adaLN_modulation.1", c).chunk(2)
        out = rms(stream, w["final_layer.norm_final.weight"]) * (1 + scale) + shift
        outputs.append(image(spec, linear(w, "final_layer.linear", out)))
    return torch.stack(outputs)


def in_float64(model):
    """The model with a rotary table in float64, since `build_rotary_pos_embed` makes it in float32."""
    angle = (10000 ** (-torch.arange(4, dtype=torch.float64) / 4)).repeat_interleave(2)
    rows, columns = torch.cartesian_prod(torch.arange(4), torch.arange(4)).unbind(1)
    angles = torch.cat([rows[:, None] * angle, columns[:, None] * angle], dim=1)
    model = model.double()
    torch.testing.assert_close(model.rope, torch.cat([angles.sin(), angles.cos()], dim=1), rtol=0, atol=1e-6)
    model.rope = torch.cat([angles.sin(), angles.cos()], dim=1)
    return model


@pytest.mark.parametrize("routes", [[], *networks.ROUTES[FAMILY]], ids=str)
def test_prediction_and_gradients_are_those_of_the_paper_s_network(routes):
    """A route may start before in-context tokens join, and end after it."""
    model, ids = in_float64(small()), drawn(routes)
    assert_is_by_hand(by_hand, model, inputs, routes)
    parameters = [p for p in model.parameters() if p.requires_grad]
    x, t, y = inputs(dtype=torch.float64)
    outputs = model(x, t, y, routes=routes, ids=ids), by_hand(model, x, t, y, routes, ids)
    found, expected = (torch.autograd.grad(one.square().sum(), parameters) for one in outputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_in_context_tokens_join_at_their_block_and_no_route_takes_them():
    model, seen = small(), []

    def note(block, state):
        seen.append((state.streams["x"].shape[1], state.streams["in_context"].clone()))

    model(*inputs(), routes=[Route(0, 2, 0.5)], on_block=note)
    assert [tokens for tokens, _ in seen] == [8, 8, 16, 16]
    unchanged = [torch.equal(before[1], after[1]) for before, after in pairwise(seen)]
    assert unchanged == [True, False, False], "they join before block 2"
    assert all(stream.shape[1] == 3 for _, stream in seen)


def test_without_in_context_tokens_none_is_left():
    model = small(in_context_tokens=0)
    assert model.in_context_posemb is None
    assert model.start(*inputs()).unrouted == ()
    with pytest.raises(ValueError, match="in_context_start 4: must be one of the 4 blocks, 0 to 3"):
        make_spec(FAMILY, **{**networks.SMALL[FAMILY], "in_context_start": 4})
    assert find_family("jit-b/16")[1]["in_context_start"] == 4
