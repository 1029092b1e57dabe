"""Chosen learning rates against known optima, and what the choice does to a decision: docs/methods/tuning.md has it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from simulated_tuning import (
    FLAT,
    NULLS,
    OWN,
    SHARP,
    TUNING_SEEDS,
    UNLUCKY,
    WIDE,
    Truth,
    bias,
    chosen,
    run_of,
    untuned,
    verdicts,
)
from synthetic_records import decided
from test_differences import DENSE_END, ROUTE, ROUTED_END, cell

from tread_bench.core.config.suite import Tune


def most(runs: int, rate: float = 0.05) -> float:
    """The largest share that this rate explains."""
    return stats.binom.ppf(0.999, runs, rate) / runs


# The rate that is chosen.


@pytest.mark.parametrize("seeds", TUNING_SEEDS)
def test_the_choice_costs_less_than_the_distance_between_candidates(seeds):
    found = chosen(seeds, 500)
    assert found.nearest > 0.8
    assert found.excess < found.grid


def test_more_tuning_seeds_choose_better_and_a_flat_curve_forgives():
    few, many = chosen(2, 1000), chosen(5, 1000)
    assert many.nearest > few.nearest and many.excess < few.excess
    flat = chosen(2, 1000, bend=Truth().bend / 4)
    assert flat.nearest < few.nearest


@pytest.mark.parametrize("seeds", TUNING_SEEDS)
@pytest.mark.parametrize("side", [-1, 1])
def test_edges_are_said_where_the_optimum_is_there_and_not_where_it_is_inside(seeds, side):
    runs = 300
    assert untuned(side * 3.0, seeds, runs) == 1
    assert untuned(side * 2.0, seeds, runs) >= 1 - most(runs)
    assert 0.4 < untuned(side * 1.5, seeds, runs) < 0.6  # the edge and its neighbour are equally good
    assert untuned(side * 1.0, seeds, runs) <= most(runs)
    assert untuned(0.0, seeds, runs) == 0


# The price of choosing.


@pytest.mark.parametrize("null", NULLS)
def test_without_a_difference_routing_is_advised_in_at_most_five_of_a_hundred_runs(null):
    runs = 150
    assert verdicts(NULLS[null], Tune(), runs).route <= most(runs)
    assert verdicts(NULLS[null], Tune(), runs, routes=4).route <= most(runs)


def test_a_decision_on_the_seeds_that_chose_would_be_wrong_more_often():
    """Of fifteen equally good rates of the route, and one of dense, the best looks better."""
    runs, tune = 200, Tune(candidates=WIDE, seeds=5)
    wrong = verdicts((SHARP, FLAT), tune, runs, on_tuning_seeds=True)
    right = verdicts((SHARP, FLAT), tune, runs)
    assert wrong.route > most(runs) >= right.route
    assert wrong.difference < -100 * OWN / 2 and abs(right.difference) < 100 * OWN / 10


@pytest.mark.full
@pytest.mark.parametrize("candidates", [None, WIDE], ids=["five", "fifteen"])
@pytest.mark.parametrize("null", NULLS)
def test_the_rate_holds_whatever_the_number_of_candidates(null, candidates):
    runs = 1000
    assert verdicts(NULLS[null], Tune(candidates=candidates), runs).route <= most(runs)


def test_the_luck_of_a_choice_is_the_same_on_all_seeds_of_a_study_so_no_interval_has_it():
    """Rows that are as good at their best differ more often where many seeds train what few chose."""
    runs, seeds = 150, 20
    few, many = (verdicts(UNLUCKY, Tune(seeds=tuning), runs, seeds=seeds).route for tuning in (2, seeds))
    assert few > most(runs) >= many


def records_of(rows, fids, is_tuning=False):
    """Records of cells at the last evaluation, whose FID is 20 times their loss."""
    found = []
    for name, row in rows.items():
        for seed, loss in fids(row).items():
            at = {DENSE_END: 20 * loss} if name == "dense" else {DENSE_END: 40 * loss, ROUTED_END: 20 * loss}
            options = {} if name == "dense" else {"routes": ROUTE, "macs_of": "dense"}
            made = cell(name, seed, at, **options, tuning=row.tuning)
            found.append(made.model_copy(update={"role": "tuning" if is_tuning else "study"}))
    return found


def test_records_of_tuning_cells_do_not_reach_a_decision():
    """Those of the chosen candidate lie beside the study's: what a run has, from its records to its decision."""
    rng = np.random.default_rng(0)
    tune = Tune(seeds=5)
    differ = 0
    for _ in range(20):
        rows = dict(zip(("dense", "route"), run_of([SHARP, FLAT], tune, rng), strict=True))
        study = records_of(rows, lambda row: row.study)
        tuning = records_of(rows, lambda row: row.on_tuning_seeds, is_tuning=True)
        ((_, alone),) = decided(study)
        assert decided([*study, *tuning])[0][1] == alone
        wrongly = [record.model_copy(update={"role": "study"}) for record in tuning]
        differ += decided([*study, *wrongly])[0][1] != alone
    assert differ == 20


# The bias of a shorter budget.


def test_half_the_training_chooses_too_high_a_rate_and_the_whole_does_not():
    """The optimum of half the length is one doubling higher: that is what the choice costs, a bend."""
    half, whole = (bias(1.0, 1.0, share, 150) for share in (0.5, 1.0))
    assert half.dense == pytest.approx(100 * Truth().bend + whole.dense, rel=0.3)
    assert abs(half.difference) < 0.1 * half.dense  # no row is favoured
    assert half.route > most(150) >= whole.route  # but each is off by luck, where the curve is steep


def test_a_shorter_budget_favours_the_row_whose_optimum_moves_less():
    runs = 150
    route_moves, dense_moves = bias(0.0, 1.0, 0.5, runs), bias(1.0, 0.0, 0.5, runs)
    assert route_moves.difference > 0.8 * 100 * Truth().bend and route_moves.route == 0
    assert dense_moves.difference < -0.8 * 100 * Truth().bend and dense_moves.route > most(runs)
    assert bias(1.0, 0.0, 1.0, runs).route <= most(runs)
