"""Routes whose rate depends on the noise level, and routes whose place is drawn for every step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from tests.model.methods.subjects import batch_range, cell_of, inputs, network_of
from tread_bench.core.describe.objectives import ObjectiveOptions, objectives
from tread_bench.core.numbers.cell_costs import cell_cost
from tread_bench.core.problems import SuiteError
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model.backbone import run_blocks

SHARES = (0.0, 0.5, 1.0)
PLACES = ("1:3", "2:4", "0:1")


def by_noise(**keys):
    return cell_of("tread_by_noise", routes="1:3@0.75", options={"shares": SHARES}, **keys)


def drawn_place(**keys):
    return cell_of("tread_drawn_place", routes=f"{PLACES[0]}@0.5", options={"others": ",".join(PLACES[1:])}, **keys)


TIMES = [*objectives(), {"name": "flow", "times": "uniform"}]


@pytest.mark.parametrize("objective", TIMES, ids=str)
def test_ranks_ascend_with_the_times_and_are_uniform(objective):
    options = cell_of(objective=objective).objective
    times = build_objective(options).draw_times(1, 7, 20_000)
    ranks = torch.from_numpy(options.time_ranks(1, 7, 20_000))[times.argsort()]
    assert (ranks.diff() > -1e-6).all(), "equal times in float32 may have different ranks"
    assert ranks.min() >= 0 and ranks.max() < 1
    even = (torch.arange(20_000) + 0.5) / 20_000
    assert (ranks - even).abs().max() < 1.95 / 20_000**0.5, "Kolmogorov and Smirnov at 0.1 %"


@pytest.mark.parametrize("objective", ["flow", "edm", "ddpm"])
def test_each_sample_takes_the_route_at_the_rate_of_its_own_noise_level(objective):
    cell = by_noise(objective={"name": objective})
    network = network_of(cell, perturbed=True).double()
    backbone, method, step = network.backbone, network.method, batch_range()
    x, t, y = inputs()
    x, t = x.double(), t.double()
    ranks = cell.objective.time_ranks(0, 0, 6).tolist()

    expected, groups = [], Counter()
    for n, rank in enumerate(ranks):
        group = sum(rank >= bound for bound in (1 / 3, 2 / 3))
        ids = method.draw(backbone, replace(step, routing=SHARES[group]), x.device).get(0)
        kept = [] if ids is None else [ids[n : n + 1]]
        state = backbone.start(x[n : n + 1], t[n : n + 1], y[n : n + 1])
        expected.append(backbone.finish(run_blocks(backbone, state, method.routes[: len(kept)], kept)))
        groups[16 if ids is None else ids.shape[1]] += 1
    assert groups.keys() >= {4, 16}, "tokens that some sample keeps"

    found = network.train_forward(x, t, y, step).output
    torch.testing.assert_close(found, torch.cat(expected), rtol=1e-9, atol=1e-9)
    parameters = [p for p in backbone.parameters() if p.requires_grad]
    gradients = (torch.autograd.grad(one.square().mean(), parameters) for one in (found, torch.cat(expected)))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)

    ahead = method.with_masks(backbone, step)
    assert {ids.shape[1] for ids in ahead.masks.values()} == {4, 10, 16}
    assert torch.equal(network.train_forward(x, t, y, ahead).output, found)


def test_by_noise_costs_the_mean_over_its_rates():
    rates = [cell_cost(cell_of("tread", routes=f"1:3@{0.75 * share}")) for share in SHARES]
    cost = cell_cost(by_noise())
    for figure in ("forward_macs", "train_step_macs", "attention_macs"):
        assert abs(getattr(cost, figure) - sum(getattr(one, figure) for one in rates) / 3) <= 6, "rounded by block"
    assert cost.tokens_per_block == [16, 10, 10, 10, 16]  # of 16, 10 and 4
    assert cost.evaluated_forward_macs == cost.dense_forward_macs


def test_a_step_takes_one_place_and_all_parts_of_its_batch_take_the_same():
    cell = drawn_place()
    network = network_of(cell, perturbed=True).eval()
    backbone, method, batch = network.backbone, network.method, cell.training.batch
    drawn = set()
    with torch.no_grad():
        for step in range(4):
            whole = batch_range(batch, step * batch)
            place = method.places[method.drawn_place(whole)]
            drawn.add(place)
            (ids,) = method.draw(backbone, whole, torch.device("cpu")).values()
            state = run_blocks(backbone, backbone.start(*inputs()), [place], [ids])
            found = network.train_forward(*inputs(), whole).output
            assert torch.equal(found, backbone.finish(state))
            parts = [batch_range(2, step * batch + first) for first in (0, 2, 4)]
            assert {method.drawn_place(part) for part in parts} == {method.drawn_place(whole)}
    assert len(drawn) > 1


def test_places_are_equally_frequent():
    method = network_of(drawn_place()).method
    counts = Counter(method.drawn_place(batch_range(6, 6 * step)) for step in range(900))
    assert set(counts) == {0, 1, 2} and all(abs(count - 300) < 4 * 900**0.5 / 2 for count in counts.values())


def test_a_drawn_place_costs_the_mean_over_places():
    places = [cell_cost(cell_of("tread", routes=f"{place}@0.5")) for place in PLACES]
    cost = cell_cost(drawn_place())
    for figure in ("forward_macs", "train_step_macs", "attention_macs"):
        assert abs(getattr(cost, figure) - sum(getattr(one, figure) for one in places) / 3) <= 10, "rounded by block"
    assert cost.tokens_per_block == [13, 11, 11, 11, 13]  # 16 and 8, in the places that hold the block


@pytest.mark.parametrize(
    ("method", "keys", "message"),
    [
        ("tread_by_noise", {"auxiliary": ["mae"]}, "needs tokens that bypass a route"),
        ("tread_by_noise", {"auxiliary": [{"name": "repa", "projector": 8}]}, "do not pass the same blocks together"),
        ("tread_by_noise", {"backbone": "U-ViT", "routes": "0:3@0.5"}, "of which only one is inside"),
        ("tread_by_noise", {"options": {"shares": [1.0]}}, "at least 2"),
        ("tread_drawn_place", {"routes": "0:1@0.5,2:3@0.5"}, "draws the place of one route"),
        ("tread_drawn_place", {"routes": "2:4@0.5"}, "place 2:4 is written twice, or is the route's own"),
        (
            "tread_drawn_place",
            {"options": {"others": "2:5"}},
            "method.others: route 2:5@0.5: the backbone has 5",
        ),
    ],
)
def test_what_they_refuse(method, keys, message):
    with pytest.raises((SuiteError, ValidationError), match=message):
        cell_of(method, **keys)


def test_an_objective_without_quantiles_is_refused(monkeypatch):
    monkeypatch.setattr(objectives()["flow"].options, "time_ranks", ObjectiveOptions.time_ranks)
    with pytest.raises(SuiteError, match="does not state the ranks of its training times; choose another"):
        by_noise()
