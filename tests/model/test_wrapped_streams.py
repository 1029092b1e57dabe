"""Wrapped networks with text beside the image, as docs/extending/routed-network.md shows them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from tests.model.own_network import AdaBlock, walked
from tests.model.two_streams import BATCH, KINDS, TEXT, built, normal, shown, wrappings
from tread_bench import RoutedNetwork, TokenSequence
from tread_bench.contract import check_wrapped
from tread_bench.model.ops.routing import lowest

# --- where tokens stand -----------------------------------------------------------------------------------------------


class Between(torch.nn.Module):
    """A class token, the image, and text behind it, in one sequence."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Parameter(torch.randn(1, 1, 16))
        self.text = torch.nn.Linear(10, 16)
        self.blocks = torch.nn.ModuleList(AdaBlock(16, num_heads=2) for _ in range(4))

    def tokens(self, x, y):
        return torch.cat([self.first.expand(len(x), -1, -1), x, self.text(y)], dim=1)

    def forward(self, x, t, y):
        return walked(self.blocks, self.tokens(x, y), t, (), None)


@pytest.mark.parametrize("two_streams", [False, True])
def test_tokens_that_are_never_routed_may_stand_on_both_sides(two_streams):
    torch.manual_seed(0)
    net = Between().double()

    def call(net, block, tokens, t):
        after = block(tokens.tokens, t)
        whole = replace(tokens, tokens=after)
        assert whole.text.shape[1:] == (1 + TEXT, 16)
        return tokens.join(whole.image, whole.text) if two_streams else after

    routed = RoutedNetwork(
        net,
        embed=lambda net, x, t, y: (TokenSequence(net.tokens(x, y), slice(1, 17)), t),
        blocks=lambda net: net.blocks,
        call=call,
        head=lambda net, tokens, t: tokens.tokens,
    )
    x, t, y = (normal(*shape).double() for shape in ((BATCH, 16, 16), (BATCH, 16), (BATCH, TEXT, 10)))
    assert torch.equal(routed(x, t, y), net(x, t, y))
    assert check_wrapped(routed, x, t, y) == []

    # By hand.
    ids = lowest(torch.rand(BATCH, 16, generator=torch.Generator().manual_seed(2)), 8)
    places = torch.cat([torch.zeros(BATCH, 1).long(), 1 + ids, torch.arange(17, 17 + TEXT).expand(BATCH, -1)], dim=1)
    expected = walked(net.blocks, net.tokens(x, y), t, range(1, 3), places)
    seen = routed(x, t, y, routes="1:2@0.5", ids=[ids])
    torch.testing.assert_close(seen, expected, rtol=1e-12, atol=1e-12)


# --- the checks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_s_wrappings_keep_to_the_checks(kind):
    """Dense they are the network itself, and in a route each token reads what is its own; padding stays masked."""
    made = built(kind)
    assert check_wrapped(made.routed, *made.inputs, original=made.itself) == []


PAGE = wrappings()


def flux_with(call):
    """FLUX, wrapped with another call."""
    return lambda net: RoutedNetwork(
        net,
        embed=PAGE["embed_flux"],
        blocks=lambda net: [*net.transformer_blocks, *net.single_transformer_blocks],
        call=call,
        head=lambda net, tokens, time: net.proj_out(net.norm_out(tokens.tokens[:, -16:], time)),
    )


def with_rows(change):
    """`call` with other rows."""
    return lambda net, block, tokens, time: PAGE["call_flux"](
        net, block, replace(tokens, rows={name: change(name, one) for name, one in tokens.rows.items()}), time
    )


def mask_when_whole(net, block, tokens, time):
    """A padding mask that is passed on only where it fits all tokens."""
    mask = tokens.rows["mask"]
    rows = {**tokens.rows, "mask": mask if mask.shape[1] == TEXT + 16 else torch.ones_like(mask)}
    return PAGE["call_flux"](net, block, replace(tokens, rows=rows), time)


BROKEN = [
    (
        "rows",
        flux_with(call=with_rows(lambda name, one: one if name == "mask" else one[:1].expand_as(one))),
        r"route .*: expected sample 1 as it is alone; saw .*: it depends on another sample; give a block each sample's",
    ),
    (
        "text",
        flux_with(call=mask_when_whole),
        r"to be read as without a route; saw that 2, 3, 4 of them are not: pass on the rows of a padding mask",
    ),
]


@pytest.mark.parametrize(("check", "wrap", "message"), BROKEN)
def test_a_broken_wrapping_is_found_and_named(check, wrap, message):
    made = built("flux")
    violations = check_wrapped(wrap(made.net), *made.inputs, original=made.itself)
    assert any(one.check == check and re.search(message, one.message) for one in violations), violations


# --- what the page shows ----------------------------------------------------------------------------------------------


def test_the_page_s_training_loop_routes_and_learns():
    made = built("flux")
    (loop,) = shown("in batches")
    counts = []
    made.routed._blocks()[3].register_forward_pre_hook(lambda block, args: counts.append(args[0].shape[1]))
    x, t, y = made.inputs
    target = x.flip(1)
    names = {**PAGE, "transformer": made.net, "seed": 0, "rank": 0}
    names["optimizer"] = torch.optim.AdamW(made.net.parameters(), lr=3e-3)
    losses = []
    for steps in (1, 30):
        exec(loop, names := {**names, "batches": [(x, t, y, target)] * steps})
        losses.append((made.routed(x, t, y) - target).square().mean().item())
    assert losses[1] < 0.7 * losses[0]
    assert set(counts) == {8, 16} and counts.count(16) == 2


def test_the_page_s_check_finds_nothing(capsys):
    made = built("flux")
    (check,) = shown("import check_wrapped")
    x, t, y = made.inputs
    exec(check, {**PAGE, "transformer": made.net, "routed": made.routed, "x": x, "t": t, "y": y})
    assert capsys.readouterr().out == ""
