"""ELIT: its limit, its groups, the numbers of latents that it draws, what they cost, and what it refuses."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

import pytest
import torch

from tests.model.methods.subjects import BACKBONES, batch_range, cell_of, inputs, network_of
from tests.model.methods.test_restated import GROUPS, TOKENS, step_with
from tread_bench.core.numbers.costs import cell_cost, cost_of
from tread_bench.measure.macs import count_added
from tread_bench.model.backbone import come_back, leave
from tread_bench.model.methods.base import run_range, walk
from tread_bench.model.methods.elit.network import places_of_groups

WIDTH = 16


def elit(backbone="DiT", routes="1:3@0.75", **keys):
    return cell_of("elit", backbone, routes=routes, **keys)


@pytest.mark.parametrize("kept", [1, 3, 4])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_latents_that_hold_what_their_tokens_hold_are_a_route(backbone, kept):
    """Their places, order and positions are those of tokens that pass, and the others bypass."""
    network = network_of(elit(backbone), perturbed=True).double()
    method, model = network.method, network.backbone

    def read(latents, tokens, c, groups):
        return tokens.unflatten(1, (groups, -1))[:, :, :kept].flatten(1, 2)

    def write(tokens, latents, c, groups):
        parts = [part.unflatten(1, (groups, -1)) for part in (latents, tokens)]
        return torch.cat([parts[0], parts[1][:, :, kept:]], dim=2).flatten(1, 2)

    method.read.forward, method.write.forward = read, write
    x, t, y = (part.double() if part.is_floating_point() else part for part in inputs())
    ids = torch.tensor([group[:kept] for group in GROUPS]).flatten().sort().values.expand(6, -1)

    def inside(number, state):
        state = run_range(model, leave(state.with_stream(state.stream()), ids), method.routes[0].blocks)
        return come_back(state).with_stream(come_back(state).stream())

    with torch.no_grad():
        found = network.train_forward(x, t, y, step_with(method, kept)).output
        routed = walk(model, model.start(x, t, y), {0: method.routes[0]}, inside)
        torch.testing.assert_close(found, model.finish(routed), rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_as_drawn_it_passes_tokens_as_they_were():
    network = network_of(elit(), perturbed=True).double()
    network.method.load_state_dict(network_of(elit()).method.state_dict())
    x, t, y = inputs()
    before = network.backbone.run_block(0, network.backbone.start(x.double(), t.double(), y))
    after = network.method._through_latents(network.backbone, before, 2, None)
    torch.testing.assert_close(after.stream(), before.stream(), rtol=0, atol=1e-12)


def test_groups_cover_the_grid_and_their_first_places_are_spread_evenly():
    assert places_of_groups((4, 4), 2).tolist() == GROUPS
    places = places_of_groups((16, 16), 4)
    assert places.flatten().sort().values.tolist() == list(range(256))
    assert places[0, :4].sort().values.tolist() == [0, 2, 32, 34]  # a quarter: every second row and column
    assert places_of_groups((4, 6), 2)[3].sort().values.tolist() == [15, 16, 17, 21, 22, 23]


# Budgets of training


def test_every_number_from_the_fewest_on_is_equally_frequent_and_shared_by_the_parts_of_a_batch():
    method = network_of(elit(routes="1:3@0.5")).method
    counts = Counter(method.drawn_number(batch_range(6, 6 * step)) for step in range(900))
    assert set(counts) == {2, 3, 4} and all(abs(count - 300) < 4 * 900**0.5 / 2 for count in counts.values())
    for step in range(5):
        parts = [batch_range(2, 6 * step + first) for first in (0, 2, 4)]
        assert {method.drawn_number(part) for part in parts} == {method.drawn_number(batch_range(6, 6 * step))}


# Costs


@pytest.mark.parametrize("routes", ["1:3@0.75", "1:3@0"])
@pytest.mark.parametrize("backbone", ["DiT", "U-ViT", "DRWKV"])
def test_a_step_costs_the_mean_over_the_numbers_of_latents(backbone, routes):
    cell = elit(backbone, routes)
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    fewest = cell.routes[0].kept(4)
    alternatives = cell.method.alternatives(cell.routes, TOKENS)
    assert [route.kept(TOKENS) for (route,) in alternatives] == [4 * number for number in range(fewest, 5)]

    # Reading and writing: linear layers over latents and tokens, the modulation of reading, and attention in groups.
    latents, has_condition = 4 * (fewest + 4) / 2, backbone != "U-ViT"
    modules = 6 * WIDTH**2 * (latents + TOKENS) + 6 * WIDTH**2 * has_condition + 4 * latents * 4 * WIDTH
    blocks = fmean(cost_of(family, spec, route).forward.total for route in alternatives)
    cost = cell_cost(cell)
    assert abs(cost.forward_macs - blocks - modules) <= 2 * spec.depth, "rounded by block"
    added = count_added(cell, 1.0)
    assert (added.forward.total, added.train_step) == (modules, 3 * modules)
    assert cost.evaluated_forward_macs == (cost_of(family, spec).forward + count_added(cell, 0.0).forward).total


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="3 heads: they must divide the width of the tokens, 16"):
        network_of(elit(options={"heads": 3}))
