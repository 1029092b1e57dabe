"""Rows that train to the total training MACs of another row, and rows of another seed group."""

from __future__ import annotations

import pytest

from tests.cell.test_schedule import shares
from tests.pairs import in_turn
from tests.small_backbones import BACKBONES
from tests.suite.test_plan import TREAD
from tests.suite.test_plan import plan_of as expanded
from tests.suite.test_plan import problems_of as mistakes
from tread_bench.cli.costs import plan_table
from tread_bench.core.config.training import RoutingSchedule
from tread_bench.core.numbers.costs import cell_cost, iterations_within, training_macs

BASE = {
    "training": {"iterations": 100, "batch": 32},
    "metrics": {"at": [50, 100]},
}
OF_DENSE = {"training.budget.macs_of": "dense"}
ROWS = {
    "throughout": {},
    "warmup": {"schedule": {"warmup": 0.37}},
    "end": {"schedule": {"until": 0.55}},
    "skip": {"method": "layer_skip", "schedule": {"warmup": 0.2, "until": 0.7}},
    "batch": {"training.batch": 48},
    "mae": {"auxiliary": ["mae"]},
}


def plan_of(rows, base=None, **fields):
    return expanded({**BASE, **(base or {})}, rows=rows, **fields)


def cells_of(rows, **fields):
    return {name: cells[0].cell for name, cells in plan_of(rows, **fields).rows.items()}


def problems_of(rows, base=None, **fields):
    return mistakes({**BASE, **(base or {})}, rows=rows, **fields)


def macs_by_hand(cell, iterations):
    """Step by step, each with the routes at its share of their rates."""
    total, by_share = 0, {}
    for share in shares(cell.schedule, iterations):
        if share not in by_share:
            routes = tuple(route.at_share(share) for route in cell.routes)
            at_share = cell.model_copy(update={"routes": routes, "schedule": RoutingSchedule()})
            by_share[share] = cell_cost(at_share).train_step_macs
        total += cell.training.batch * by_share[share]
    return total


# How long a row is


@pytest.mark.parametrize(("family", "row"), in_turn(BACKBONES, ROWS))
def test_no_other_number_of_iterations_costs_nearer_to_the_budget(family, row):
    rows = {"dense": None, "row": {"method": "tread", "routes": "1:3@0.5", **ROWS[row], **OF_DENSE}}
    cells = cells_of(rows, base={"backbone": BACKBONES[family]})
    found, budget = cells["row"].training.iterations, macs_by_hand(cells["dense"], 100)
    off = [abs(macs_by_hand(cells["row"], iterations) - budget) for iterations in range(found - 2, found + 3)]
    assert off.index(min(off)) == 2
    by_hand = macs_by_hand(cells["row"], found)
    assert training_macs(cells["row"]) == pytest.approx(by_hand, rel=1e-5)  # blocks are rounded


def test_iterations_are_found_from_any_start():
    cell = cells_of({"row": {**TREAD, "schedule": {"warmup": 0.4, "until": 0.6}}})["row"]
    for start, wanted in ((1000, 1), (1, 12345)):
        other = cell.model_copy(update={"training": cell.training.model_copy(update={"iterations": start})})
        at = cell.model_copy(update={"training": cell.training.model_copy(update={"iterations": wanted})})
        assert iterations_within(training_macs(at), other) == (wanted, training_macs(at))


def test_a_row_is_evaluated_where_the_row_of_its_budget_is_and_at_its_end():
    cells = cells_of({"dense": None, "cheaper": {**TREAD, **OF_DENSE}, "dearer": {"backbone.depth": 16, **OF_DENSE}})
    assert (cells["cheaper"].training.iterations, cells["cheaper"].metrics.at) == (140, (50, 100, 140))
    assert (cells["dearer"].training.iterations, cells["dearer"].metrics.at) == (75, (50, 75))


def test_shares_of_the_training_are_those_of_each_row_s_own():
    rows = {"dense": {"metrics.at": [0.1, 100]}, "cheaper": {**TREAD, **OF_DENSE}, "again": {"evaluate": "cheaper"}}
    cells = cells_of(rows, base={"training": {"iterations": 100, "batch": 32, "snapshots": [0.5]}})
    assert (cells["dense"].metrics.at, cells["cheaper"].metrics.at) == ((10, 100), (14, 100, 140))
    assert (cells["dense"].training.snapshots, cells["cheaper"].training.snapshots) == ((50,), (70,))
    assert (cells["again"].training, cells["again"].metrics.at) == (cells["cheaper"].training, (140,))
    of_base = cells_of({"dense": None, "cheaper": {**TREAD, **OF_DENSE}}, overrides={"metrics.at": [0.25, 0.5]})
    assert (of_base["dense"].metrics.at, of_base["cheaper"].metrics.at) == ((25, 50), (35, 70, 140))


def test_iterations_that_a_row_shares_with_others_give_way_and_need_not_be_there():
    row = cells_of({"dense": None, "row": {**TREAD, **OF_DENSE}})["row"].training.iterations
    own = {"dense": {"training.iterations": 100, "training.budget": None}, "row": TREAD}
    bare = {"training": {"batch": 32, "budget": {"macs_of": "dense"}}, "metrics": {}}
    cells = cells_of(own, base=bare)
    assert (cells["row"].training.iterations, cells["row"].metrics.at) == (row, (100, row))
    assert cells["dense"].training.budget is None
    doubled = cells_of({"dense": None, "row": {**TREAD, **OF_DENSE}}, overrides={"training.iterations": 200})["row"]
    assert doubled.training.iterations == pytest.approx(2 * row, abs=1)


def test_of_rows_with_equal_matrices_the_one_of_the_same_combination_is_meant():
    sizes = {"matrix": {"backbone.depth": [10, 12]}}
    rows = {"dense": sizes, "row": {**sizes, **TREAD, **OF_DENSE}, "evaluated": {**sizes, "evaluate": "row"}}
    cells = cells_of(rows)
    for depth in (10, 12):
        assert cells[f"row depth={depth}"].training.budget.macs_of == f"dense depth={depth}"
        assert cells[f"evaluated depth={depth}"].evaluate.row == f"row depth={depth}"


# Pairs and ids


def test_the_reference_is_the_dense_row_although_the_lengths_differ():
    rows = {
        "dense": None,
        "row": {**TREAD, **OF_DENSE},
        "as-long": TREAD,
        "skip": {"method": "layer_skip", "routes": "2:8@0.5", **OF_DENSE},
        "small": {"backbone.depth": 6, **OF_DENSE},
        "small-row": {"backbone.depth": 6, "method": "tread", "routes": "1:4@0.5", **OF_DENSE},
    }
    plan = plan_of(rows, seeds=[0, 1])
    for seed in range(2):
        cells = {row: cells[seed] for row, cells in plan.rows.items()}
        for row in ("dense", "row", "as-long", "skip"):
            assert cells[row].reference == cells["dense"].id
        assert cells["small"].reference == cells["small-row"].reference == cells["small"].id


# Mistakes


MACS_OF = ("training.budget.macs_of",)


@pytest.mark.parametrize(
    ("row", "loc", "message"),
    [
        ({"training.budget.macs_of": "dens"}, MACS_OF, "did you mean 'dense'? known: dense, short"),
        ({"training.budget.macs_of": "row"}, MACS_OF, "unknown trained row 'row'"),
        ({"training.budget.macs_of": "other"}, MACS_OF, "rows that train for"),
        ({"training.budget.macs_of": "judge"}, MACS_OF, "rows that train for"),
        ({**OF_DENSE, "training.iterations": 5}, ("training.iterations",), "follow from training.budget"),
        ({**OF_DENSE, "metrics.at": [7]}, ("metrics.at",), "follows from training.budget"),
        ({**OF_DENSE, "objective": "edm"}, ("objective", "name"), "row 'dense', which the budget names, has 'flow'"),
        ({**OF_DENSE, "sampling.steps": 7}, ("sampling.steps",), "has 50; set the same"),
        ({**OF_DENSE, "metrics.num_samples": 256}, ("metrics.num_samples",), "has 512; set the same"),
        ({**OF_DENSE, "data": {"name": "random_latents"}, "metrics.generate": False}, ("data", "name"), "has 'digits'"),
        ({"training.budget.macs_of": "short"}, MACS_OF, "train row 'short' for more iterations"),
        ({"evaluate": "dense", **OF_DENSE}, MACS_OF, "training has no effect"),
        ({**OF_DENSE, "training.snapshots": [200]}, ("training.snapshots", 0), "must lie in 1..140"),
        ({"seed_group": -1}, ("seed_group",), "greater than or equal to 0"),
    ],
    ids=str,
)
def test_a_mistake_is_located(row, loc, message):
    rows = {
        "dense": None,
        "short": {"training.iterations": 3, "metrics.at": None},
        "other": {"backbone.depth": 6, **OF_DENSE},
        "judge": {"evaluate": "dense"},
        "row": {**({} if "evaluate" in row else TREAD), **row},
    }
    found = problems_of(rows)
    assert [where for where, text in found if message in text] == [("rows", "row", *loc)], found


# What is shown


def test_the_plan_has_the_iterations_and_the_ratio():
    plan = plan_of({"dense": None, "row": {**TREAD, **OF_DENSE}, "again": {"evaluate": "row"}})
    dense, row, again = plan_table(plan)
    assert (dense["iterations"], dense["budget"], row["iterations"]) == (100, None, 140)
    assert dense["training_macs"] == 3200 * dense["train_step_macs"]
    ratio = 140 * row["train_step_macs"] / (100 * dense["train_step_macs"])
    assert row["budget"] == {"macs_of": "dense", "ratio": pytest.approx(ratio)}
    assert abs(row["budget"]["ratio"] - 1) < 0.005
    assert (again["iterations"], again["training_macs"], again["budget"]) == (0, 0, None)


def test_a_smoke_run_comes_as_near_as_its_iterations_allow():
    rows, short = {"dense": None, "row": {**TREAD, **OF_DENSE}}, {"training.iterations": 4, "metrics.at": [2, 4]}
    ((loc, message),) = problems_of(rows, overrides=short)
    assert loc == ("rows", "row", *MACS_OF) and "train row 'dense' for more" in message
    cells = {name: cells[0].cell for name, cells in plan_of(rows).as_smoke().rows.items()}
    assert (cells["row"].training.iterations, cells["row"].metrics.at) == (6, (2, 4, 6))


def test_of_a_row_that_is_only_timed_the_budget_is_nothing():
    plan = plan_of({"dense": None, "row": {**TREAD, **OF_DENSE}}, base={"training": {"iterations": 0}, "metrics": {}})
    cells = {row: cells[0] for row, cells in plan.rows.items()}
    assert cells["row"].cell.is_timed_only and cells["row"].cell.metrics.at is None
    assert cells["row"].reference == cells["dense"].id
    assert [row["budget"] for row in plan_table(plan)] == [None, None]


# Seed groups


def test_a_seed_group_shifts_seeds_and_pairs_up():
    rows = {"dense": None, "again": {"seed_group": 1}, "tread": TREAD, "tread-2": {**TREAD, "seed_group": 2}}
    plan = plan_of(rows, seeds=[3, 7])
    seeds = {row: [cell.seed for cell in cells] for row, cells in plan.rows.items()}
    assert seeds == {"dense": [3, 7], "again": [1003, 1007], "tread": [3, 7], "tread-2": [2003, 2007]}
    dense = [cell.id for cell in plan.rows["dense"]]
    for row, cells in plan.rows.items():
        assert [cell.reference for cell in cells] == dense, row
        assert [cell.paired_seed for cell in cells] == [3, 7]


def test_a_routed_row_is_compared_with_the_dense_row_of_its_own_group():
    rows = {"again": {"seed_group": 1}, "dense": None, "tread": {**TREAD, "seed_group": 1}}
    plan = plan_of(rows)
    assert plan.rows["tread"][0].reference == plan.rows["again"][0].id
    assert plan.rows["again"][0].reference == plan.rows["dense"][0].id
    told = problems_of(rows, seeds=[5, 1000])
    assert [loc[1] for loc, message in told if "every seed must lie below" in message] == ["again", "tread"]
