"""The two errors of the rule, measured on simulated series, and what it never does."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from tread_bench.regression.history.change_points import (
    MIN_RUNS,
    MIN_SEGMENT,
    PENALTY,
    exact_segments,
    noise_of,
    segments,
)

SERIES = 2000
LEVEL, NOISE = 100.0, 2.0
NOT_RELEVANT = 1e-6  # of any size a step would matter: errors are those of the penalty alone


def gaussian(rng, runs):
    return rng.normal(size=runs)


def heavy_tailed(rng, runs):
    return rng.standard_t(3, size=runs)


def with_a_bad_run(rng, runs):
    return rng.normal(size=runs) + 20 * (np.arange(runs) == rng.integers(runs))


def borders(values, relevant=NOT_RELEVANT):
    return [segment.start for segment in segments(values, relevant)][1:]


def may_change(series):
    """Whether the best partition of each series has a cut, (N,) of (N, T): before steps that do not last are removed.

    By dynamic programming over the places of the last cut, for all series at once.
    """
    noise = 1.4826 / 2**0.5 * np.median(np.abs(np.diff(series, axis=1)), axis=1)
    penalty = np.maximum(PENALTY * noise, MIN_SEGMENT * NOT_RELEVANT)
    runs = series.shape[1]
    best = np.full((len(series), runs + 1), np.inf)
    best[:, 0] = -penalty  # the first segment follows no cut
    for stop in range(MIN_SEGMENT, runs + 1):
        for start in (0, *range(MIN_SEGMENT, stop - MIN_SEGMENT + 1)):
            best[:, stop] = np.minimum(best[:, stop], best[:, start] + deviations(series[:, start:stop]) + penalty)
    return best[:, -1] < deviations(series) - 1e-9


def deviations(series):
    """Sum of |x - median| of each series, (N,)."""
    return np.abs(series - np.median(series, axis=1, keepdims=True)).sum(axis=1)


SETTINGS = [*product((MIN_RUNS, 16), (gaussian, heavy_tailed, with_a_bad_run)), (40, heavy_tailed)]


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "draw"), SETTINGS)
def test_constant_series_seldom_change(runs, draw):
    rng = np.random.default_rng(0)
    series = np.array([LEVEL + NOISE * draw(rng, runs) for _ in range(SERIES)])
    share = sum(bool(borders(one)) for one in series[may_change(series)]) / SERIES  # the rule itself, where it matters
    print(f"{draw.__name__}, {runs} runs: {share:.2%} of {SERIES} constant series change")
    assert share <= 0.005


def test_no_series_changes_whose_best_partition_has_no_cut():
    """Among them series with a step that is hardly worth the penalty of a cut."""
    rng = np.random.default_rng(1)
    series = np.array([gaussian(rng, 16) + step * (np.arange(16) >= 8) for step in np.linspace(0, 5, 60)])
    found = may_change(series)
    assert [bool(borders(one)) for one in series[~found]] == [False] * sum(~found)
    assert sum(~found) > 10 and sum(bool(borders(one)) for one in series[found]) > 10


@pytest.mark.parametrize(("step", "least"), [
    (3.0, 0.9), (4.0, 0.99), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((2.0, 0.2), (6.0, 1.0))),
])  # fmt: skip
def test_a_step_amid_thirty_runs_is_found_where_it_is(step, least):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        values = LEVEL + NOISE * (gaussian(rng, 30) + step * (np.arange(30) >= 18))
        found.append(any(abs(border - 18) <= 1 for border in borders(values)))
    print(f"a step of {step:g} times the noise: found in {np.mean(found):.1%}")
    assert np.mean(found) >= least


def steps(*levels, each=6):
    return np.repeat(levels, each) + 0.01 * np.random.default_rng(1).normal(size=each * len(levels))


def test_several_steps_are_told_apart_and_levels_are_medians():
    values = steps(1.0, 2.0, 1.5)
    found = segments(values, 0.1)
    assert [(segment.start, segment.stop) for segment in found] == [(0, 6), (6, 12), (12, 18)]
    assert [segment.level for segment in found] == [np.median(values[k : k + 6]) for k in (0, 6, 12)]


@pytest.mark.parametrize("at", [MIN_SEGMENT, 10, 20 - MIN_SEGMENT])
def test_a_change_is_told_at_its_place_once_enough_runs_have_followed_it(at):
    values = np.where(np.arange(20) < at, 1.0, 2.0) + 0.01 * np.random.default_rng(2).normal(size=20)
    followed = {more: borders(values[: at + more]) for more in range(20 - at + 1) if at + more >= MIN_RUNS}
    assert followed == {more: [at] if more >= MIN_SEGMENT else [] for more in followed}


@pytest.mark.parametrize("bad", range(1, MIN_SEGMENT))
@pytest.mark.parametrize("at", [0, 8, 18])
def test_fewer_bad_runs_than_count_are_no_change_however_bad(bad, at):
    values = np.random.default_rng(3).normal(size=20)
    values[at : at + bad] += 1000
    assert borders(values) == []


def test_what_does_not_matter_is_no_change_however_sure():
    values = steps(1.0, 1.02, each=15)
    assert borders(values, 0.03) == [] and borders(steps(1.0, 1.05, each=15), 0.03) == [15]


def test_without_noise_every_step_that_matters_and_lasts_is_told():
    values = [1.0] * 5 + [1.04] * 5 + [1.05] * 5 + [9.0] * (MIN_SEGMENT - 1)
    assert borders(values, 0.03) == [5]


def test_units_change_nothing():
    values = steps(1.0, 1.2, 1.1)
    assert borders(values, 0.01) == borders(1000 * values, 10) == borders(values + 7, 0.01) == borders(-values, 0.01)


def test_neither_a_step_nor_a_bad_run_changes_the_noise_much():
    rng = np.random.default_rng(0)
    quiet = rng.normal(size=2000)
    assert noise_of(quiet) == pytest.approx(1.0, rel=0.05)
    assert noise_of(quiet + 50 * (np.arange(2000) > 900) + 50 * (np.arange(2000) == 5)) == pytest.approx(1.0, rel=0.05)


def test_too_few_runs_are_refused():
    with pytest.raises(ValueError, match=f"at least {MIN_RUNS}"):
        segments([1.0] * (MIN_RUNS - 1), 0.1)


def test_exact_figures_change_wherever_they_differ():
    found = exact_segments([5, 5, 6, 5])
    assert [(segment.start, segment.stop, segment.level) for segment in found] == [(0, 2, 5), (2, 3, 6), (3, 4, 5)]
    assert all(before.stop == after.start for before, after in pairwise(found))
