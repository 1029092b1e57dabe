"""Networks that know nothing of this package, wrapped: dense as they were, routed as one would write it by hand."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.model.own_network import AdaBlock, MyNetwork
from tread_bench import RoutedNetwork, TokenOrder, TokenSequence
from tread_bench.contract import check_backbone, check_wrapped
from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.routes import resolve_routes
from tread_bench.measure.macs import count_cost
from tread_bench.model.backbone import build_backbone, run_blocks
from tread_bench.model.contract.wrapped import WRAPPED_CHECKS
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


class RotaryBlock(nn.Module):
    """Attention that learns where tokens stand from rotations of queries and keys alone."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, angles):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k = (torch.view_as_real(torch.view_as_complex(one.unflatten(2, (-1, 2))) * angles) for one in (q, k))
        mixed = nn.functional.scaled_dot_product_attention(q.flatten(2)[:, None], k.flatten(2)[:, None], v[:, None])
        return x + mixed[:, 0]


class RotaryNet(nn.Module):
    """Sequences (B, N, 3) to sequences, of N up to 32."""

    def __init__(self):
        super().__init__()
        self.into = nn.Linear(3, WIDTH)
        self.blocks = nn.ModuleList(RotaryBlock(WIDTH) for _ in range(BLOCKS))
        self.out = nn.Linear(WIDTH, 3)
        turns = torch.outer(torch.arange(32), 0.5 ** torch.arange(WIDTH // 2))
        self.register_buffer("angles", torch.polar(torch.ones_like(turns), turns), persistent=False)

    def forward(self, x, t, y):
        tokens = self.into(x)
        for block in self.blocks:
            tokens = block(tokens, self.angles[: x.shape[1]])
        return self.out(tokens)


ROTARY = {
    "embed": lambda net, x, t, y: TokenSequence(net.into(x), rows={"angles": net.angles[None, : x.shape[1]]}),
    "blocks": lambda net: net.blocks,
    "call": lambda net, block, tokens: block(tokens.tokens, tokens.rows["angles"]),
    "head": lambda net, tokens: net.out(tokens.tokens),
}


@pytest.fixture
def vit():
    torch.manual_seed(0)
    return MyNetwork(8, 2, 3, 2, BLOCKS, WIDTH)


@pytest.fixture
def rotary():
    torch.manual_seed(0)
    return RotaryNet()


def images(batch=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, 2, 8, 8, generator=generator, dtype=dtype)
    return x, torch.rand(batch, generator=generator, dtype=dtype), torch.arange(batch) % 4


def sequences(batch=3):
    return torch.randn(batch, 12, 3, generator=torch.Generator().manual_seed(1)), torch.zeros(batch), None


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


def by_hand(net, x, t, y, start, end, ids):
    """Sample by sample: the kept tokens, with the prefix, through the blocks from `start` to `end`."""
    condition = net.condition(t, y)
    outputs = []
    for sample, kept in enumerate(ids.tolist()):
        own = condition[sample : sample + 1]
        whole = torch.cat([own, net.tokens(x)[sample]])
        for block in net.blocks[:start]:
            whole = block(whole[None], own)[0]
        places = [0, *(1 + token for token in kept)]
        inside = whole[places]
        for block in net.blocks[start : end + 1]:
            inside = block(inside[None], own)[0]
        rows = {place: inside[number] for number, place in enumerate(places)}
        whole = torch.stack([rows.get(place, whole[place]) for place in range(len(whole))])
        for block in net.blocks[end + 1 :]:
            whole = block(whole[None], own)[0]
        outputs.append(whole[1:])
    return net.image(torch.stack(outputs), condition)


@pytest.mark.parametrize("training", [True, False])
def test_routed_it_is_what_one_would_write_by_hand(vit, training):
    vit.double()
    routed = RoutedNetwork(vit, **VIT).train(training)
    inputs, ids = images(dtype=torch.float64), ids_of(3, TOKENS, 8)
    expected = by_hand(vit, *inputs, 1, 3, ids)
    seen = routed(*inputs, routes="1:3@0.5", ids=[ids])
    torch.testing.assert_close(seen, expected, rtol=1e-12, atol=1e-12)
    gradients = (torch.autograd.grad(out.square().sum(), list(vit.parameters())) for out in (expected, seen))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(seen, vit(*inputs))


def test_the_number_of_tokens_may_differ_from_call_to_call(rotary):
    routed = RoutedNetwork(rotary, **ROTARY)
    for tokens in (4, 7, 32):
        x = torch.randn(2, tokens, 3)
        assert routed(x, torch.zeros(2), routes="1:3@0.5").shape == x.shape


def test_selectors_that_choose_by_place_are_for_a_grid_that_is_stated(vit):
    routed = RoutedNetwork(vit, **VIT, grid=(4, 4))
    kept = []
    routed(*images(), routes="1:1@0.5", selector="rows", on_block=lambda block, state: None)
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
    torch.testing.assert_close(run_blocks(routed, state.only(chosen)).stream(), alone.stream())

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
        (changed(blocks=lambda net: []), r"blocks returned a list: it must return a list of one block or more"),
        (
            changed(blocks=lambda net: [*net.blocks, AdaBlock(WIDTH, 2)]),
            "block 5 has parameters that the network does not",
        ),
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
    message = r"block 2 failed on 8 of 16 tokens \(RuntimeError: .*\): inside a route it must take any of them; give"
    with pytest.raises(ValueError, match=message):
        routed(*images(), routes="1:3@0.5")


def test_what_fails_dense_is_the_network_s_own_error(vit):
    vit.blocks[2] = FixedTable()
    vit.blocks[2].table = nn.Parameter(torch.zeros(3, WIDTH))
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        RoutedNetwork(vit, **VIT)(*images())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            changed(embed=lambda net, x, t, y: net.patches(x)),
            r"embed returned \(3, 16, 4, 4\) float32: tokens are \(B, S, D\) of floating point, here with B = 3",
        ),
        (
            changed(embed=lambda net, x, t, y: (net.tokens(x), net.positions)),
            r"embed returned \(16, 16\) float32 beside the tokens: conditioning is tensors \(B, ...\), here with B = 3",
        ),
        (
            changed(embed=lambda net, x, t, y: TokenSequence(net.tokens(x), slice(16, None))),
            "embed returned 16 tokens, of which 0 can be routed, and one or more must be: state routable and grid",
        ),
        (changed(grid=(4, 5)), r"embed returned 17 tokens, of which 16 can be routed, for a grid \(4, 5\): state"),
        (
            changed(embed=lambda net, x, t, y: TokenSequence(net.tokens(x), slice(0, 16, 2))),
            r"routable = slice\(0, 16, 2\): routable tokens stand together, in step 1",
        ),
        (
            changed(embed=lambda net, x, t, y: TokenSequence(net.tokens(x), rows={"cos": net.positions})),
            r"embed returned rows 'cos' as \(16, 16\) float32 for 16 tokens: rows are \(B, S, ...\), or \(1, S, ...\)",
        ),
        (
            changed(call=lambda net, block, tokens, c: (block(tokens.tokens, c), None)),
            r"block 0 returned a tuple for tokens \(3, 17, 16\): it must return these tokens; with call= pick them",
        ),
        (
            changed(call=lambda net, block, tokens, c: block(tokens.tokens, c)[:, ::2]),
            r"block 0 returned \(3, 9, 16\) float32 for tokens \(3, 17, 16\)",
        ),
    ],
)
def test_what_its_functions_return_is_held_to_the_rule(vit, arguments, message):
    with pytest.raises(ValueError, match=message):
        RoutedNetwork(vit, **arguments)(*images(), routes="1:3@0.5")


def test_blocks_that_were_added_later_are_not_left_out_in_silence(vit):
    routed = RoutedNetwork(vit, **VIT)
    vit.blocks.append(AdaBlock(WIDTH, 2))
    with pytest.raises(ValueError, match="6 blocks, but routes count 5: wrap the network again"):
        routed(*images())


def test_kept_ids_must_ascend_where_the_order_of_tokens_counts(vit):
    ids = ids_of(3, TOKENS, 8).flip(1)
    assert RoutedNetwork(vit, **VIT)(*images(), routes="1:3@0.5", ids=[ids]).shape == (3, 2, 8, 8)
    with pytest.raises(ValueError, match="be ascending"):
        RoutedNetwork(vit, **VIT, token_order=TokenOrder.SEQUENCE)(*images(), routes="1:3@0.5", ids=[ids])


# --- the checks -------------------------------------------------------------------------------------------------------


def test_sound_wrappings_break_nothing_and_come_back_as_they_were(vit, rotary):
    vit.blocks[1].eval()
    weights = deepcopy(vit.state_dict())
    assert check_wrapped(RoutedNetwork(vit, **VIT), *images()) == []
    assert all(torch.equal(weights[name], value) for name, value in vit.state_dict().items())
    assert vit.training and vit.blocks[0].training and not vit.blocks[1].training
    assert check_wrapped(RoutedNetwork(rotary, **ROTARY), *sequences()) == []
    shown = RoutedNetwork(vit, **VIT)
    assert check_wrapped(shown, *images(), original=lambda x, t, y: vit.eval()(x, t, y)) == []


def block_of(net, block, tokens):
    return block(tokens.tokens, tokens.rows["angles"])


def windowed(net, block, tokens):
    """Pairs of the tokens present attend to each other alone, whichever they are."""
    x, angles = tokens.tokens, tokens.rows["angles"]
    pairs = x.shape[1] // 2
    part, turns = (one[:, : 2 * pairs].reshape(-1, 2, one.shape[2]) for one in (x, angles))
    return torch.cat([block(part, turns).reshape(len(x), 2 * pairs, -1), x[:, 2 * pairs :]], dim=1)


def remembers(net, block, tokens):
    """Adds what the block computed when it was called before."""
    before = getattr(block, "before", torch.zeros(()))
    block.before = block_of(net, block, tokens).detach()
    return block_of(net, block, tokens) + (before if before.shape == tokens.tokens.shape else 0)


def counts(net, block, tokens):
    """Computes something else each time."""
    block.calls = getattr(block, "calls", 0) + 1
    return block_of(net, block, tokens) / block.calls


def stores(net, x, t, y):
    sequence = ROTARY["embed"](net, x, t, y)
    net.stored = sequence.tokens
    return sequence


def writes_into_stored(net, block, tokens):
    """Updates the tokens that left."""
    with torch.no_grad():
        net.stored.data.add_(1)
    return block_of(net, block, tokens)


def gathered(net, block, tokens):
    """Scales what went through a gather."""
    return tokens.tokens * (2 - tokens.rows["angles"].is_contiguous())


def sequence_with_text(net, x, t, y):
    """A learned token behind those of the image, counted among them."""
    return torch.cat([net.into(x), torch.ones(len(x), 1, WIDTH)], dim=1)


OUTSIDE = RotaryNet()
BROKEN = [
    ("dense", {"head": lambda net, tokens: 2 * net.out(tokens.tokens)}),
    ("routable", {"embed": sequence_with_text, "call": lambda net, block, tokens: tokens, "head": lambda net, x: x}),
    ("blocks", {"call": lambda net, block, tokens: tokens.tokens.mul_(0.5)}),
    ("independence", {"call": remembers}),
    ("rate_zero", {"call": gathered}),
    ("blocks", {"embed": stores, "call": writes_into_stored}),
    ("order", {"call": lambda net, block, tokens: block(tokens.tokens, net.angles[: tokens.tokens.shape[1]])}),
    ("order", {"call": windowed}),
    ("checkpointing", {"call": counts}),
    ("copies", {"head": lambda net, tokens: OUTSIDE.out(tokens.tokens)}),
]
BROKEN_STREAMS = {"rows", "text"}  # in test_wrapped_streams.py


@pytest.mark.parametrize(("check", "parts"), BROKEN)
def test_each_check_finds_what_it_is_there_for(rotary, check, parts):
    network = OUTSIDE if check == "copies" else rotary
    violations = check_wrapped(RoutedNetwork(network, **{**ROTARY, **parts}), *sequences())
    assert check in {violation.check for violation in violations}, violations
    for violation in violations:
        assert ("expected" in violation.message and "saw" in violation.message) or "raised" in violation.message


def test_every_check_is_shown_to_find_something():
    found = {check for check, _ in BROKEN} | BROKEN_STREAMS
    assert found == {check.__name__.removeprefix("check_") for check in WRAPPED_CHECKS}


def test_too_few_tokens_are_refused_with_the_way_out(rotary):
    x, t, y = sequences()
    with pytest.raises(ValueError, match="3 tokens are too few to route: take a larger x"):
        check_wrapped(RoutedNetwork(rotary, **ROTARY), x[:, :3], t, y)


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
