"""MMDiT: its text changes in every block and no route takes it; and what finds one that routes it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from tests.backbones import networks
from tests.backbones.networks import drawn, text_inputs
from tread_bench.backbones.mmdit.family import MMDIT
from tread_bench.backbones.mmdit.network import MMDiT
from tread_bench.contract import check_backbone
from tread_bench.core.describe.routes import ResolvedRoute, Route
from tread_bench.model.backbone import build_backbone, come_back, leave, run_blocks
from tread_bench.model.ops.routing import gather_tokens, scatter_tokens

small = partial(networks.small, "MMDiT")
ROUTE = Route(1, 2, 0.5)


@pytest.mark.parametrize("kernels", [{"attention": "sdpa"}, {"attention": "math"}], ids=str)
def test_a_routed_block_is_the_block_on_the_kept_rows_and_the_whole_text(kernels):
    """Gradients of image, text, conditioning and weights included."""
    model = small(kernels=kernels).double()
    (ids,) = drawn([ROUTE])
    start = model.start(*text_inputs(dtype=torch.float64))
    leaves = [value.detach().requires_grad_() for value in (*start.streams.values(), start.c)]
    x, text, c = leaves
    state = replace(start.with_streams(x=x, text=text), c=c)
    (resolved,) = MMDIT.resolve(model.spec, [ROUTE], "random")
    routed = run_blocks(model, state, [resolved], [ids])

    first, second, third, last = model.joint_blocks
    x, text = first(x, text, c)
    rows = torch.stack([sample[kept] for sample, kept in zip(x, ids, strict=True)])
    for block in (second, third):
        rows, text = block(rows, text, c)
    x = torch.stack([whole.index_copy(0, kept, row) for whole, kept, row in zip(x, ids, rows, strict=True)])
    x, text = last(x, text, c)

    torch.testing.assert_close(routed.streams["x"], x, rtol=0, atol=1e-12)
    torch.testing.assert_close(routed.streams["text"], text, rtol=0, atol=1e-12)
    weighting = torch.linspace(-1, 1, x.numel(), dtype=torch.float64).view_as(x)
    wanted = [*leaves, *model.joint_blocks.parameters()]
    found, expected = (torch.autograd.grad((out * weighting).sum(), wanted) for out in (routed.streams["x"], x))
    for seen, by_hand in zip(found, expected, strict=True):
        torch.testing.assert_close(seen, by_hand, rtol=0, atol=1e-11)


@torch.no_grad()
def test_the_text_is_whole_and_changes_in_every_block_but_the_last():
    model, texts, counts = small(), [], []

    def look(block, state):
        texts.append(state.streams["text"])
        counts.append(state.streams["x"].shape[1])

    start = model.start(*text_inputs())
    run_blocks(model, start, [ResolvedRoute(1, 2, 0.5)], drawn([ROUTE]), look)
    assert counts == [16, 8, 16, 16]
    assert [text.shape for text in texts] == [(3, 5, 32)] * 4
    before = [start.streams["text"], *texts]
    changed = [(one != other).any(2).all().item() for one, other in zip(before, texts, strict=False)]
    assert changed == [True, True, True, False]


@torch.no_grad()
def test_inside_a_route_the_text_reads_the_tokens_present_alone():
    model, (ids,) = small().double(), drawn([ROUTE])
    start = model.start(*text_inputs(dtype=torch.float64))
    absent = torch.ones(3, 16, dtype=torch.bool).scatter(1, ids, False)
    other = start.with_streams(x=torch.where(absent.unsqueeze(2), -start.streams["x"], start.streams["x"]))
    one, same = (come_back(model.run_block(1, leave(state, ids))) for state in (start, other))
    assert torch.equal(one.streams["text"], same.streams["text"])
    assert torch.equal(one.streams["x"][absent], start.streams["x"][absent])
    dense, moved = (model.run_block(1, state).streams["text"] for state in (start, other))
    assert not torch.equal(dense, moved) and not torch.equal(dense, one.streams["text"])


def test_parameter_names_are_those_of_the_release():
    names = set(dict(small(depth=2).named_parameters()))
    both = ("weight", "bias")
    reads = {f"{layer}.{part}" for layer in ("attn.qkv", "adaLN_modulation.1") for part in both}
    changes = reads | {f"{layer}.{part}" for layer in ("attn.proj", "mlp.fc1", "mlp.fc2") for part in both}
    outside = ("x_embedder.proj", "t_embedder.mlp.0", "t_embedder.mlp.2", "context_embedder")
    assert names == {
        *(f"{layer}.{part}" for layer in (*outside, "final_layer.linear") for part in both),
        *(f"final_layer.adaLN_modulation.1.{part}" for part in both),
        *(f"joint_blocks.{block}.x_block.{name}" for block in (0, 1) for name in changes),
        *(f"joint_blocks.0.context_block.{name}" for name in changes),
        *(f"joint_blocks.1.context_block.{name}" for name in reads),
    }


class RoutesItsText(MMDiT):
    """Says nothing of a text with as many rows as the image, so that a route takes rows of it."""

    found_by = "text"
    context_tokens = 16

    def embed(self, x, t, y):
        return replace(super().embed(x, t, y), unrouted=(), residual=("x",))


class GathersItsText(MMDiT):
    """Takes the rows of its text that have the numbers of the image tokens present."""

    found_by = "text"
    context_tokens = 16

    def run_block(self, block, state):
        if state.ids is None:
            return super().run_block(block, state)
        text = state.streams["text"]
        after = super().run_block(block, state.with_streams(text=gather_tokens(text, state.ids)))
        return after.with_streams(text=scatter_tokens(text, after.streams["text"], state.ids))


class Positioned(MMDiT):
    """Adds learned rows to both streams before each block, by place; sound."""

    context_tokens = 5

    def __init__(self, spec, kernels):
        super().__init__(spec, kernels)
        self.rows, self.text_rows = (nn.Embedding(spec.num_tokens, spec.hidden) for _ in range(2))

    def run_block(self, block, state):
        x, text = state.streams["x"], state.streams["text"]
        places = torch.arange(16).expand(len(x), -1) if state.ids is None else state.ids
        x, text = x + self.rows(self.of_image(places)), text + self.text_rows(self.of_text(places)[:, :5])
        return super().run_block(block, state.with_streams(x=x, text=text))

    def of_image(self, places):
        return places

    def of_text(self, places):
        return torch.arange(16).expand(len(places), -1)


class ImagePlacesOfTheText(Positioned):
    """Counts the image tokens present from zero, as the text's."""

    found_by = "order"

    def of_image(self, places):
        return self.of_text(places)[:, : places.shape[1]]


class TextPlacesOfTheImage(Positioned):
    """Looks up the text's rows by the ids of the image tokens."""

    found_by = "order"

    def of_text(self, places):
        return places


def violations_of(network):
    """Of a network that has more positions than its family, so another cost."""
    sizes = {"depth": 4, "hidden": 16, "heads": 2, "image_size": 8, "channels": 1, "context_dim": 6}
    family = replace(MMDIT, name=network.__name__, builder=f"{__name__}:{network.__name__}", cost=None)
    return check_backbone(family, MMDIT.spec(**sizes, context_tokens=network.context_tokens))


def test_one_with_places_of_its_own_for_both_streams_is_sound():
    assert violations_of(Positioned) == []


@pytest.mark.parametrize("network", [RoutesItsText, GathersItsText, ImagePlacesOfTheText, TextPlacesOfTheImage])
def test_one_that_routes_its_text_or_mixes_up_places_is_found(network):
    assert network.found_by in [violation.check for violation in violations_of(network)]


def test_the_last_block_s_text_weights_are_what_the_image_reads():
    """What SD3 leaves out there: of the text, nothing but keys and values has an effect on the image."""
    model = build_backbone(MMDIT, small().spec, {"attention": "math"}, seed=0)
    model(*text_inputs()).square().sum().backward()
    query, key, value = model.joint_blocks[-1].context_block.attn.qkv.weight.grad.chunk(3)
    assert not query.any() and key.any() and value.any()
