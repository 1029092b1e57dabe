"""Networks that know nothing of this package, wrapped: dense as they were, routed as one would write it by hand."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.model.own_network import AdaBlock, MyNetwork, walked
from tread_bench import RoutedNetwork, TokenOrder, TokenSequence
from tread_bench.contract import check_backbone, check_wrapped
from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.routes import resolve_routes
from tread_bench.measure.macs import count_cost
from tread_bench.model.backbone import build_backbone, run_blocks
from tread_bench.model.ops.routing import lowest

BLOCKS, WIDTH, TOKENS = 5, 16, 16


def embed(net, x, t, y):
    condition = net.condition(t, y)
    return TokenSequence(torch.cat([condition[:, None], net.tokens(x)], dim=1), slice(1, None)), condition


VIT = {
    "embed": embed,
    "blocks": lambda net: net.blocks,
    "head": lambda net, tokens, condition: net.image(tokens.image, condition),
}


@pytest.fixture
def vit():
    torch.manual_seed(0)
    return MyNetwork(8, 2, 3, 2, BLOCKS, WIDTH)


def images(batch=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, 2, 8, 8, generator=generator, dtype=dtype)
    return x, torch.rand(batch, generator=generator, dtype=dtype), torch.arange(batch) % 4


def ids_of(batch, tokens, kept, seed=2):
    return lowest(torch.rand(batch, tokens, generator=torch.Generator().manual_seed(seed)), kept)


@pytest.mark.parametrize("training", [True, False])
def test_without_routes_it_is_the_network_itself(vit, training):
    routed = RoutedNetwork(vit, **VIT).train(training)
    expected, seen = vit(*images()), routed(*images())
    assert torch.equal(seen, expected)
    names = [name for name, _ in vit.named_parameters()]
    gradients = (torch.autograd.grad(out.square().sum(), list(vit.parameters())) for out in (expected, seen))
    for name, one, other in zip(names, *gradients, strict=True):
        assert torch.equal(one, other), name
    assert [id(p) for p in routed.parameters()] == [id(p) for p in vit.parameters()]  # nothing is copied


@pytest.mark.parametrize("training", [True, False])
def test_routed_it_is_what_one_would_write_by_hand(vit, training):
    vit.double()
    routed = RoutedNetwork(vit, **VIT).train(training)
    inputs, ids = images(dtype=torch.float64), ids_of(3, TOKENS, 8)
    sequence, condition = embed(vit, *inputs)
    places = nn.functional.pad(1 + ids, (1, 0))  # with the condition's token in front
    expected = vit.image(walked(vit.blocks, sequence.tokens, condition, range(1, 4), places)[:, 1:], condition)
    seen = routed(*inputs, routes="1:3@0.5", ids=[ids])
    torch.testing.assert_close(seen, expected, rtol=1e-12, atol=1e-12)
    gradients = (torch.autograd.grad(out.square().sum(), list(vit.parameters())) for out in (expected, seen))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(seen, vit(*inputs))


def test_selectors_that_choose_by_place_are_for_a_grid_that_is_stated(vit):
    routed = RoutedNetwork(vit, **VIT, grid=(4, 4))
    kept = []
    vit.blocks[1].register_forward_pre_hook(lambda block, given: kept.append(given[0]))
    routed(*images(), routes="1:1@0.5", selector="rows")
    assert kept[0].shape[1] == 1 + 8
    with pytest.raises(ValueError, match="selector 'rows' would be wrong for MyNetwork: choose one of random"):
        RoutedNetwork(vit, **VIT)(*images(), routes="1:1@0.5", selector="rows")


CONDITIONED = {
    "embed": lambda net, x, t, y: (net.tokens(x), net.time(t[:, None]), y, None),
    "blocks": lambda net: net.blocks,
    "call": lambda net, block, tokens, c, y, _: block(tokens, c) + net.label(y)[:, None],
    "head": lambda net, tokens, c, y, _: net.image(tokens, c),
}


def test_conditioning_goes_with_its_samples_and_into_float32_where_a_block_does(vit):
    routed = RoutedNetwork(vit, **CONDITIONED)
    inputs, ids = images(), [ids_of(3, TOKENS, 8)]
    state = routed.start(*inputs)

    # Some samples of the batch alone, as skipped layers walk them.
    chosen = torch.tensor([2, 0])
    alone = run_blocks(routed, routed.start(*(one[chosen] for one in inputs)))
    torch.testing.assert_close(run_blocks(routed, state.only(chosen)).stream(), alone.stream(), rtol=1e-4, atol=1e-4)

    # The block after a route outside autocast.
    routes = resolve_routes("1:3@0.5", BLOCKS)
    with torch.autocast("cpu", torch.bfloat16):
        state = routed.start(*inputs)
        assert state.conditioning[0].dtype == torch.bfloat16
        after = run_blocks(routed, state, routes, ids, float32_after_route=True)
    assert after.stream().dtype == torch.float32
    assert [None if one is None else one.dtype for one in after.conditioning] == [torch.bfloat16, torch.int64, None]


# --- mistakes, each with one clear error ------------------------------------------------------------------------------


def changed(**parts):
    return {**VIT, **parts}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({**VIT, "network": MyNetwork.forward}, "network is a function: it must be the torch.nn.Module that owns"),
        (changed(blocks=lambda net: []), "blocks returned a list: it must return a list of one block or more"),
        (changed(blocks=lambda net: [*net.blocks, AdaBlock(WIDTH, 2)]), "block 5 has parameters that the network does"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(vit, arguments, message):
    with pytest.raises(ValueError, match=message):
        RoutedNetwork(**{"network": vit, **arguments})


class FixedTable(nn.Module):
    """A table of as many rows as there are tokens in all."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1 + TOKENS, WIDTH))

    def forward(self, tokens, condition):
        return tokens + self.table


def test_a_block_that_needs_every_token_is_named_in_a_route_and_runs_dense(vit):
    vit.blocks[2] = FixedTable()
    routed = RoutedNetwork(vit, **VIT)
    assert torch.equal(routed(*images()), vit(*images()))
    routed(*images(), routes="3:4@0.5")  # around it
    message = "block 2 failed on 8 of 16 tokens: in a route it must take any of them; give what belongs to a token"
    with pytest.raises(RuntimeError, match=message):
        routed(*images(), routes="1:3@0.5")
    vit.blocks[2].table = nn.Parameter(torch.zeros(3, WIDTH))
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):  # dense it is the network's own error
        routed(*images())


def with_tokens(**sequence):
    return changed(embed=lambda net, x, t, y: TokenSequence(net.tokens(x), **sequence))


MISFITS = [
    (changed(embed=lambda net, x, t, y: net.patches(x)), r"\(3, 16, 4, 4\) float32: tokens are \(B, S, D\) of"),
    (changed(embed=lambda net, x, t, y: (net.tokens(x), net.positions)), r"conditioning is tensors \(B, ...\), here"),
    (with_tokens(routable=slice(16, None)), "16 tokens, of which 0 can be routed, and one or more must be"),
    (changed(grid=(4, 5)), r"embed returned 17 tokens, of which 16 can be routed, for a grid \(4, 5\): state"),
    (with_tokens(routable=slice(0, 16, 2)), r"routable = slice\(0, 16, 2\): routable tokens stand together"),
    (with_tokens(rows={"cos": torch.zeros(16, 16)}), r"rows 'cos' as \(16, 16\) float32 for 16 tokens: rows are"),
    (changed(call=lambda net, block, tokens, c: (block(tokens.tokens, c), None)), "block 0 returned a tuple for"),
    (changed(call=lambda net, block, tokens, c: tokens.tokens[:, ::2]), r"\(3, 9, 16\) float32 for tokens \(3, 17"),
]


@pytest.mark.parametrize(("arguments", "message"), MISFITS)
def test_what_its_functions_return_is_held_to_the_rule(vit, arguments, message):
    with pytest.raises(ValueError, match=message):
        RoutedNetwork(vit, **arguments)(*images(), routes="1:3@0.5")


def test_blocks_that_were_added_later_are_not_left_out(vit):
    routed = RoutedNetwork(vit, **VIT)
    vit.blocks.append(AdaBlock(WIDTH, 2))
    assert routed.num_blocks == 6 and torch.equal(routed(*images()), vit(*images()))


def test_kept_ids_must_ascend_where_the_order_of_tokens_counts(vit):
    ids = ids_of(3, TOKENS, 8).flip(1)
    with pytest.raises(ValueError, match="be ascending"):
        RoutedNetwork(vit, **VIT, token_order=TokenOrder.SEQUENCE)(*images(), routes="1:3@0.5", ids=[ids])


# --- the checks -------------------------------------------------------------------------------------------------------


def test_sound_wrappings_break_nothing_and_come_back_as_they_were(vit):
    vit.blocks[1].eval()
    weights = deepcopy(vit.state_dict())
    assert check_wrapped(RoutedNetwork(vit, **VIT), *images()) == []
    assert all(torch.equal(weights[name], value) for name, value in vit.state_dict().items())
    assert vit.training and vit.blocks[0].training and not vit.blocks[1].training
    assert check_wrapped(RoutedNetwork(vit, **VIT), *images(), original=lambda x, t, y: vit.eval()(x, t, y)) == []


def test_what_a_state_dict_leaves_out_comes_back_too_and_samples_may_share_a_time(vit):
    norm = vit.norm = nn.BatchNorm2d(2)
    vit._register_state_dict_hook(lambda module, weights, *_: weights.clear())
    held = [(one, one.detach().clone()) for one in (*vit.parameters(), *vit.buffers())]

    def normed(net, x, t, y):
        return embed(net, net.norm(x), t.expand(len(x)), y)

    (x, t, y), routed = images(), RoutedNetwork(vit, **changed(embed=normed))
    assert check_wrapped(routed, x, t[0], y, original=lambda x, t, y: vit(norm(x), t.expand(len(x)), y)) == []
    assert all(torch.equal(one, value) for one, value in held)


def test_a_finding_says_what_a_block_needs(vit):
    vit.blocks[2] = FixedTable()
    found = check_wrapped(RoutedNetwork(vit, **VIT), *images())
    assert any("block 2 failed on 8 of 16 tokens" in one.message for one in found)


def embed_all(net, x, t, y):
    """The condition's token stands among those of the image."""
    sequence, condition = embed(net, x, t, y)
    return sequence.tokens, condition


def embed_a_row(net, x, t, y):
    sequence, condition = embed(net, x, t, y)
    return replace(sequence, rows={"row": torch.zeros(1, 1 + TOKENS, 1)}), condition


def gathered(net, block, tokens, condition):
    """Scales what went through a gather."""
    return tokens.tokens * (2 - tokens.rows["row"].is_contiguous())


def by_number(net, block, tokens, condition):
    """Adds positions in the order of the tokens present, whichever they are."""
    positions = nn.functional.pad(net.positions, (0, 0, 1, 0))
    return block(tokens.tokens + positions[: tokens.tokens.shape[1]], condition)


def remembers(net, block, tokens, condition):
    """Adds what the block computed when it was called before."""
    before = getattr(block, "before", torch.zeros(()))
    block.before = block(tokens.tokens, condition).detach()
    return block(tokens.tokens, condition) + (before if before.shape == tokens.tokens.shape else 0)


def counts(net, block, tokens, condition):
    """Computes something else each time."""
    block.calls = getattr(block, "calls", 0) + 1
    return block(tokens.tokens, condition) / block.calls


def test_rows_without_a_gradient_are_gathered_once_per_route(vit):
    rows = []

    def call(net, block, tokens, condition):
        rows.append(tokens.rows["row"])
        return block(tokens.tokens, condition)

    RoutedNetwork(vit, **changed(embed=embed_a_row, call=call))(*images(), routes="1:3@0.5")
    assert rows[1] is rows[2] is rows[3] and rows[1].shape == (3, 1 + TOKENS // 2, 1)


OUTSIDE = MyNetwork(8, 2, 3, 2, BLOCKS, WIDTH)
BROKEN = [
    ("dense", {"head": lambda net, tokens, condition: 2 * net.image(tokens.image, condition)}),
    ("routable", {"embed": embed_all, "head": lambda net, tokens, condition: net.image(tokens[:, 1:], condition)}),
    ("blocks", {"call": lambda net, block, tokens, condition: tokens.tokens.mul_(0.5)}),
    ("independence", {"call": remembers}),
    ("rate_zero", {"embed": embed_a_row, "call": gathered}),
    ("order", {"call": by_number}),
    ("checkpointing", {"call": counts}),
    ("copies", {"head": lambda net, tokens, condition: OUTSIDE.image(tokens.image, condition)}),
]


@pytest.mark.parametrize(("check", "parts"), BROKEN)
def test_each_check_finds_what_it_is_there_for(vit, check, parts):
    network = OUTSIDE if check == "copies" else vit
    violations = check_wrapped(RoutedNetwork(network, **changed(**parts)), *images())
    assert check in {violation.check for violation in violations}, violations
    for violation in violations:
        assert ("expected" in violation.message and "saw" in violation.message) or "raised" in violation.message


def test_too_few_tokens_are_refused_with_the_way_out():
    x, t, y = images()
    with pytest.raises(ValueError, match="1 tokens are too few to route: take a larger x"):
        check_wrapped(RoutedNetwork(MyNetwork(2, 2, 3, 2, BLOCKS, WIDTH), **VIT), x[:, :, :2, :2], t, y)


# --- as the backbone of a family --------------------------------------------------------------------------------------


CHECKOUT = Path(__file__).parents[2]


def shown_code(document):
    """The example with a wrapped network."""
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    (code,) = (code for code in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "RoutedNetwork(" in code)
    return code


def build(spec, kernels):
    """What the builder of a family returns."""
    return RoutedNetwork(MyNetwork(8, 2, 3, 2, BLOCKS, WIDTH), **VIT)


def build_as_shown(spec, kernels):
    exec(shown_code("docs/extending/backbone.md"), names := {"MyNetwork": MyNetwork})
    return names["build"](spec, kernels)


FAMILY = Family(
    name="Mine",
    spec=BackboneSpec,
    published={},
    token_order=TokenOrder.SET,
    num_blocks=lambda spec: BLOCKS,
    num_prefix=lambda spec: 1,
    builder=f"{__name__}:build",
)
SPEC = BackboneSpec(image_size=8, channels=2, num_classes=3, patch=2)


def test_the_builder_of_a_family_may_return_a_wrapped_network():
    assert check_backbone(FAMILY, SPEC) == []
    built = build_backbone(FAMILY, SPEC, seed=0)
    x, t, y = images()
    assert torch.equal(built(x, t), built.network(x, t, torch.full((3,), 3)))  # no label is the last row
    with pytest.raises(ValueError, match=r"this model takes \(B, 2, 8, 8\)"):
        built(x[:, :1], t, y)
    assert built(x, t, y, routes="1:3@0.5", selector="rows").shape == x.shape


def test_the_builder_that_the_document_shows_keeps_the_contract():
    sizes = {"num_blocks": lambda spec: 10, "num_prefix": lambda spec: 0}
    assert check_backbone(replace(FAMILY, **sizes, builder=f"{__name__}:build_as_shown"), SPEC) == []


def test_its_cost_is_counted_and_falls_with_the_tokens():
    dense, routed = count_cost(FAMILY, SPEC), count_cost(FAMILY, SPEC, "1:3@0.5")
    assert dense.params == sum(parameter.numel() for parameter in build(SPEC, {}).parameters())
    for block, (whole, half) in enumerate(zip(dense.blocks, routed.blocks, strict=True)):
        assert half.linear * 17 == whole.linear * (9 if 1 <= block <= 3 else 17)


# --- what the documents show ------------------------------------------------------------------------------------------


def test_the_readme_s_training_loop_runs_and_learns():
    torch.manual_seed(0)
    net = MyNetwork(8, 2, 3, 2)
    seen = []
    for block in net.blocks:
        block.register_forward_pre_hook(lambda block, given: seen.append(given[0].shape[1]))
    x, t, y = images(batch=8)
    target = x.flip(2)
    names = {"net": net, "optimizer": torch.optim.AdamW(net.parameters(), lr=3e-3), "x": x, "t": t, "y": y}
    losses = []
    for steps in (0, 20):
        exec(shown_code("README.md"), names := {**names, "batches": [(x, t, y, target)] * steps})
        losses.append((names["prediction"] - target).square().mean().item())
    assert losses[1] < 0.8 * losses[0]
    assert seen[10:20] == [16, 16, 8, 8, 8, 8, 8, 8, 8, 16]  # the first training step
    assert seen[:10] == seen[-10:] == [16] * 10  # predictions
