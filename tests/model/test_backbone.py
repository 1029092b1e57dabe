"""Where tokens leave and come back, on a backbone whose blocks are known functions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from tread_bench.core.describe.families import BackboneSpec, Family, make_spec
from tread_bench.core.describe.routes import ResolvedRoute, Route
from tread_bench.core.describe.selectors import TokenOrder
from tread_bench.core.numbers.costs import cost_figures, cost_of
from tread_bench.model.backbone import Backbone, TokenState, build_backbone, run_blocks
from tread_bench.model.ops.routing import lowest

BLOCKS = 6


class Toy(Backbone):
    """Two streams and two prefix tokens; block i adds i + 1 to `a` and scales `b`; a long skip from block 1 to 4."""

    def __init__(self, spec=None, kernels=None):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def embed(self, x, t, y):
        tokens = x.flatten(1).unsqueeze(-1)
        prefix = torch.full((len(x), 2, 1), 100.0, dtype=x.dtype)
        whole = torch.cat([prefix, tokens], dim=1)
        return TokenState({"a": whole, "b": whole * 0 + 1}, grid=self.spec.grid, num_prefix=2)

    def run_block(self, block, state):
        a, b = state.streams["a"] + block + 1, state.streams["b"] * self.scale
        state = state.with_streams(a=a, b=b)
        if block == 1:
            state = state.push_skip("a")
        if block == 4:
            skip, state = state.pop_skip()
            state = state.with_streams(a=state.streams["a"] + 1000 * skip)
        return state

    def head(self, state):
        return state.streams["a"][:, 2:, 0].unflatten(1, (1, *self.spec.grid))


FAMILY = Family(
    name="Toy",
    spec=BackboneSpec,
    published={},
    token_order=TokenOrder.SET,
    num_blocks=lambda spec: BLOCKS,
    num_prefix=lambda spec: 2,
    builder=f"{__name__}:Toy",
)
SPEC = BackboneSpec(image_size=4, channels=1, num_classes=0, patch=1)


@pytest.fixture
def toy():
    return build_backbone(FAMILY, SPEC)


@pytest.fixture
def x():
    return torch.randn(3, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def states_after_blocks(toy, x, routes, ids):
    states = {}
    final = run_blocks(toy, toy.start(x, torch.zeros(3), None), routes, ids, lambda i, s: states.update({i: s}))
    return states, final


def test_bypassed_tokens_return_with_their_value_in_every_stream(toy, x):
    ids = lowest(torch.rand(3, 16, generator=torch.Generator().manual_seed(1)), 8)
    states, _ = states_after_blocks(toy, x, [ResolvedRoute(1, 3, 0.5)], [ids])
    bypassed = torch.ones(3, 16, dtype=torch.bool).scatter(1, ids, False)
    for stream in ("a", "b"):
        before, after = (states[i].streams[stream][:, 2:, 0] for i in (0, 3))
        assert torch.equal(before[bypassed], after[bypassed])
        assert (before[~bypassed] != after[~bypassed]).all()


def test_skip_between_two_routes_is_expanded_then_gathered(toy, x):
    generator = torch.Generator().manual_seed(3)
    first, second = (lowest(torch.rand(3, 16, generator=generator), 8) for _ in range(2))
    _, final = states_after_blocks(toy, x, [Route(1, 2, 0.5), Route(3, 4, 0.5)], [first, second])
    in_first, in_second = (torch.zeros(3, 16, dtype=torch.float64).scatter(1, i, 1.0) for i in (first, second))
    tokens = x.flatten(1)
    skip = tokens + 1 + 2 * in_first
    expected = tokens + 1 + 5 * in_first + (9 + 1000 * skip) * in_second + 6
    torch.testing.assert_close(final.streams["a"][:, 2:, 0], expected)


def test_gradient_of_bypassed_tokens_flows_around_the_route(toy):
    x = torch.randn(3, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    ids = [lowest(torch.rand(3, 16, generator=torch.Generator().manual_seed(1)), 8)]
    assert torch.autograd.gradcheck(lambda x: toy(x, torch.zeros(3), routes=[Route(1, 3, 0.5)], ids=ids), x)


@pytest.mark.parametrize("shape", [(3, 2, 4, 4), (3, 1, 8, 8), (3, 16)])
def test_wrong_input_shape_is_named_with_the_right_one(toy, shape):
    with pytest.raises(ValueError, match=r"this model takes \(B, 1, 4, 4\)"):
        toy(torch.zeros(shape), torch.zeros(3))


def test_a_route_may_be_text_for_a_network_and_its_costs(toy, x):
    inputs, ids = (x, torch.zeros(3)), lowest(torch.rand(3, 16, generator=torch.Generator().manual_seed(1)), 8)
    expected = toy(*inputs, routes=[Route(1, 3, 0.5)], ids=[ids])
    for given in ("1:3@0.5", ["1:-3@0.5"]):
        assert torch.equal(toy(*inputs, routes=given, ids=[ids]), expected)
        toy.check_ids(given, [ids], toy.start(*inputs, None))
    family, spec = make_spec("DiT", depth=6, hidden=8, heads=2, image_size=8)
    assert cost_of(family, spec, "1:3@0.5") == cost_of(family, spec, [Route(1, 3, 0.5)])
    assert cost_figures(family, spec, "1:3@0.5") == cost_figures(family, spec, [Route(1, 3, 0.5)])


class DrawnByItself(Toy):
    """Draws its weights in its constructor and defines no `init_module`."""

    def __init__(self, spec, kernels):
        super().__init__(spec, kernels)
        self.table = nn.Embedding(50, 40)
        nn.init.normal_(self.table.weight, std=0.02)


def test_what_a_constructor_draws_is_kept_and_a_function_of_the_seed():
    """torch's own draw of the embedding is N(0, 1): it must not come back."""
    family = replace(FAMILY, builder=f"{__name__}:DrawnByItself")
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, same, other = (build_backbone(family, SPEC, seed=seed).table.weight for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)  # none of it came from the global generator
    assert torch.equal(first, same) and not torch.equal(first, other)
    assert first.std().item() == pytest.approx(0.02, rel=0.1)


def sequence_toy():
    """The toy as a family whose blocks mind the order."""
    return build_backbone(replace(FAMILY, token_order=TokenOrder.SEQUENCE), SPEC)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "ids holds 0 tensors for 1 routes"),
        ([torch.arange(9).expand(3, 9)], r"shape \(3, 9\), but it keeps \(B, K\) = \(3, 8\)"),
        ([torch.arange(8).expand(2, 8)], r"shape \(2, 8\), but it keeps \(B, K\) = \(3, 8\)"),
        ([torch.arange(9, 17).expand(3, 8)], r"must lie in 0\.\.15"),
        ([torch.arange(-1, 7).expand(3, 8)], r"must lie in 0\.\.15"),
        ([torch.tensor([0, 1, 2, 3, 4, 5, 6, 6]).expand(3, 8)], "distinct|ascending"),
    ],
)
@pytest.mark.parametrize("build", [lambda: build_backbone(FAMILY, SPEC), sequence_toy], ids=["set", "sequence"])
def test_ids_that_do_not_fit_their_route_are_refused(build, x, ids, message):
    with pytest.raises(ValueError, match=message):
        build()(x, torch.zeros(3), routes=[Route(1, 3, 0.5)], ids=ids)


def test_unsorted_ids_are_refused_where_order_counts_and_harmless_where_not(toy, x):
    ids = lowest(torch.rand(3, 16, generator=torch.Generator().manual_seed(1)), 8)
    inputs, routes = (x, torch.zeros(3)), [Route(1, 3, 0.5)]
    assert torch.equal(toy(*inputs, routes=routes, ids=[ids.flip(1)]), toy(*inputs, routes=routes, ids=[ids]))
    with pytest.raises(ValueError, match=r"ids of route 1:3@0\.5: must lie in 0\.\.15 and be ascending"):
        sequence_toy()(*inputs, routes=routes, ids=[ids.flip(1)])
