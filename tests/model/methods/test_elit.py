"""ELIT against a restatement from its paper, its limits, its budgets, its cost, and what it refuses."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F

from tests.backbones.restated import attend, layer_norm, linear
from tests.model.methods.restated_dit import (
    block,
    condition,
    embedded,
    head,
    modulation,
    same_gradients,
    weights_of,
)
from tests.model.methods.subjects import BACKBONES, batch_range, cell_of, inputs, network_of
from tread_bench.core.describe.methods import find_method
from tread_bench.core.numbers.cell_costs import cell_cost
from tread_bench.core.numbers.costs import cost_of
from tread_bench.measure.macs import count_added, count_evaluated
from tread_bench.model.backbone import come_back, leave
from tread_bench.model.methods.base import run_range, walk
from tread_bench.model.methods.elit.network import places_of_groups

ELIT = find_method("elit")
WIDTH, TOKENS, HEADS = 16, 16, 2
GROUPS = [[0, 4, 1, 5], [2, 6, 3, 7], [8, 12, 9, 13], [10, 14, 11, 15]]  # of 2 x 2 tokens; latents in this order


def elit(backbone="DiT", routes="1:3@0.75", **keys):
    return cell_of("elit", backbone, routes=routes, **keys)


def crossed(w, name, x_TD, others_MD, c):
    """x + CA(LN(x); others), then x + MLP(LN(x)); reading is modulated, writing is not."""

    def normed_heads(part, tokens):
        heads = tokens.unflatten(1, (HEADS, -1))
        heads = heads / (heads.square().mean(2, keepdim=True) + 1e-6).sqrt() * w[f"{name}.{part}_norm.weight"]
        return heads.flatten(1)

    shift1, scale1, gate1, shift2, scale2, gate2 = (0, 0, 1) * 2
    if name == "method.read":
        shift1, scale1, gate1, shift2, scale2, gate2 = modulation(w, "method.read.modulation.linear", c, 6)
    queries = normed_heads("query", linear(w, f"{name}.query", layer_norm(x_TD, 1e-6) * (1 + scale1) + shift1))
    keys = normed_heads("key", linear(w, f"{name}.key", others_MD))
    mixed = attend(queries, keys, linear(w, f"{name}.value", others_MD), HEADS)
    x_TD = x_TD + gate1 * linear(w, f"{name}.proj", mixed)
    hidden = linear(w, f"{name}.mlp.fc1", layer_norm(x_TD, 1e-6) * (1 + scale2) + shift2)
    return x_TD + gate2 * linear(w, f"{name}.mlp.fc2", F.gelu(hidden, approximate="tanh"))


def restated(w, spec, x, t, y, kept):
    """The prediction (C, H, W) of one sample with the first `kept` latents of every group."""
    c = condition(w, t, y)
    tokens = block(w, "backbone.blocks.0", embedded(w, spec, x), c, spec.heads)
    latents = torch.cat([crossed(w, "method.read", w["method.latents"][:kept], tokens[group], c) for group in GROUPS])
    for number in (1, 2, 3):
        latents = block(w, f"backbone.blocks.{number}", latents, c, spec.heads)
    written = torch.empty_like(tokens)
    for group, own in zip(GROUPS, latents.split(kept), strict=True):
        written[group] = crossed(w, "method.write", tokens[group], own, c)
    return head(w, spec, block(w, "backbone.blocks.4", written, c, spec.heads), c)


def steps_by_number(network, steps=40):
    """A training step of each number of latents that is drawn."""
    ranges = [batch_range(6, 6 * step) for step in range(steps)]
    return {network.method.drawn_number(one): one for one in ranges}


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_a_step_and_its_gradients_are_those_of_the_restatement(kept):
    network = network_of(elit(), perturbed=True).double()
    x, t, y = inputs()
    step = steps_by_number(network)[kept]
    output = network.train_forward(x.double(), t.double(), y, step).output
    w = weights_of(network)
    expected = torch.stack([restated(w, network.spec, x[n].double(), t[n].double(), y[n], kept) for n in range(6)])
    torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-9)
    target = torch.linspace(-1, 1, expected.numel(), dtype=torch.float64).view_as(expected)
    for one in (output, expected):
        (one - target).square().mean().backward()
    same_gradients(network, w)


@pytest.mark.parametrize("budget", [0.25, 0.5, 1.0])
def test_it_is_evaluated_with_the_latents_of_its_budget_and_trained_with_all_of_them_without_routing(budget):
    network = network_of(elit(options={"budget": budget}), perturbed=True).double()
    x, t, y = (part.double() if part.is_floating_point() else part for part in inputs())
    with torch.no_grad():
        w = weights_of(network)
        judged, dense = (
            torch.stack([restated(w, network.spec, x[n], t[n], y[n], kept) for n in range(6)])
            for kept in (int(4 * budget), 4)
        )
        torch.testing.assert_close(network(x, t, y), judged, rtol=1e-9, atol=1e-9)
        trained = network.train_forward(x, t, y, batch_range(routing=0.0)).output
    torch.testing.assert_close(trained, dense, rtol=1e-9, atol=1e-9)


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
        found = network.train_forward(x, t, y, steps_by_number(network)[kept]).output
        routed = walk(model, model.start(x, t, y), {0: method.routes[0]}, inside)
        torch.testing.assert_close(found, model.finish(routed), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backbone", ["DiT", "U-ViT", "ZigMa"])
def test_as_drawn_tokens_pass_as_they_were_and_the_network_is_that_without_its_core(backbone):
    network = network_of(elit(backbone), perturbed=True).double()
    method, model = network.method, network.backbone
    method.load_state_dict(network_of(elit(backbone)).method.state_dict())
    x, t, y = (part.double() if part.is_floating_point() else part for part in inputs())
    with torch.no_grad():
        before = model.run_block(0, model.start(x, t, y))
        after = method._through_latents(model, before, 2, None)
        images = [state.stream()[:, state.num_prefix :] for state in (before, after)]
        torch.testing.assert_close(*images, rtol=0, atol=1e-12)
        if not before.num_prefix:  # which passes the core by itself
            torch.testing.assert_close(network(x, t, y), model.finish(model.run_block(4, before)), rtol=0, atol=1e-12)
    network.train_forward(x, t, y, batch_range()).output.square().mean().backward()
    assert any(p.grad is not None and p.grad.any() for p in method.write.parameters()), "and it learns"


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


@pytest.mark.parametrize("budget", [0.25, 0.5])
def test_an_evaluation_costs_the_latents_of_its_budget_and_training_costs_the_same(budget):
    cell = elit(options={"budget": budget})
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    kept = int(TOKENS * budget)
    both = 6 * WIDTH**2 * (kept + TOKENS) + 6 * WIDTH**2 + 4 * kept * 4 * WIDTH
    expected = cost_of(family, spec, f"1:3@{1 - budget}").forward.total + both
    cost, full = cell_cost(cell), cell_cost(elit())
    assert cost.evaluated_forward_macs == expected == count_evaluated(cell).total
    assert cost.evaluated_forward_macs < full.evaluated_forward_macs
    assert cost.model_copy(update={"evaluated_forward_macs": full.evaluated_forward_macs}) == full


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="3 heads: they must divide the width of the tokens, 16"):
        network_of(elit(options={"heads": 3}))
