"""From how much compute on routing pays: ratios in closed form, the rule step by step, simulated error rates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.core import simulated_onsets as simulated
from tread_bench.core.numbers.onset import Ratio, between, compute_ratios, onset


def power_law(factor: float = 1.0) -> list[tuple[float, float]]:
    """An arm that needs `factor` times the compute of another for the same loss; exact between its lengths."""
    return [(cost, (cost / factor) ** -0.2) for cost in simulated.COSTS]


def of_arms(*pairs: tuple[list, list], margin: float = 1.0) -> list[Ratio]:
    """By length, of a reference and a routed arm of each width, with three equal seeds."""
    references, routed = ([[arm] * 3 for arm in arms] for arms in zip(*pairs, strict=True))
    return [ratio for (ratio,) in compute_ratios([references], routed, margin)]


def values_of(found: list[Ratio]) -> list[float]:
    return [float(np.exp(one.logs[0])) for one in found]


def ratio(*values: float) -> Ratio:
    """Of seeds whose loss falls with the root of the compute."""
    logs = np.log(values)
    return Ratio(logs, np.stack([logs / 2, logs / 2]))


@pytest.mark.parametrize("factor", [0.3, 0.8, 1.0, 1.25, 3.5])
def test_the_ratio_of_two_power_laws_is_known_at_every_length(factor):
    found = of_arms((power_law(factor), power_law()))
    assert values_of(found) == pytest.approx([factor] * 3)
    assert not any(one.is_least or one.is_most for one in found)


def test_nothing_is_extrapolated():
    """At the second of three lengths the better arm was that good at its first, a quarter of the compute, already."""
    found = of_arms((power_law(50.0), power_law()))
    assert all(one.is_least and not one.is_most for one in found)
    assert all(one.is_most and not one.is_least for one in of_arms((power_law(), power_law(50.0))))
    assert values_of(found) == pytest.approx([16, 4, 16])
    assert found[1].estimate.mean == pytest.approx(4)
    assert found[1].estimate.bounds is None


@pytest.mark.parametrize("last", [0.21, 0.0])
def test_a_loss_that_rises_or_has_no_logarithm_has_no_compute(last):
    """Of one seed of three, which is not left out by how it ended."""
    seeds = [power_law(), [(1.0, 0.3), (4.0, 0.2), (16.0, last)], power_law()]
    found = [one for (one,) in compute_ratios([[seeds]], [[power_law(0.9)] * 3])]
    assert np.isnan([one.logs for one in found]).tolist() == [[False, True, False]] * 3
    assert all(one.estimate is None for one in found)
    assert onset([[one] for one in found]).answer == "inconclusive"


def test_widths_are_averaged_seed_by_seed():
    """A bound at one width bounds the mean."""
    known, bound = (power_law(2.0), power_law()), (power_law(50.0), power_law())
    (_, mean, _), (_, alone, _) = of_arms(known, bound), of_arms(bound)
    assert np.exp(mean.logs) == pytest.approx([math.sqrt(2 * 4)] * 3)
    assert mean.advantages == pytest.approx((of_arms(known)[1].advantages + alone.advantages) / 2)
    assert mean.is_least and not mean.is_most and mean.estimate.bounds is None


def test_each_reference_has_its_ratios_at_each_length_and_without_a_seed_nothing_is_known():
    found = compute_ratios([[[power_law(2.0)]], [[power_law(0.5)]]], [[power_law()]])
    assert [values_of(at_length) for at_length in found] == [pytest.approx([2.0, 0.5])] * 3
    none = Ratio(found[0][0].logs[:0], found[0][0].advantages[:, :0])
    assert none.estimate is None and math.isnan(none.p_value)


def test_bounds_from_below_and_from_above_leave_a_ratio_unknown():
    """Four times or more at one width, and a quarter or less at another, may be any ratio."""
    _, found, _ = of_arms((power_law(50.0), power_law()), (power_law(0.05), power_law()))
    assert found.is_least and found.is_most and found.estimate is None
    assert not math.isnan(replace(found, advantages=np.add(found.advantages, [-0.1, 0.0, 0.1])).p_value)


def test_it_pays_from_the_shortest_length_down_to_which_every_length_does():
    much, none, worse = ratio(1.5, 1.6, 1.55), ratio(0.9, 1.0, 1.1), ratio(0.5, 0.52, 0.51)
    assert onset([[none], [much], [much]]).first == 1
    assert onset([[much], [none], [much]]).first == 2  # what lies below a length that fails is not tested
    assert onset([[much], [much], [much]]).first == 0
    assert onset([[much], [much], [none]]).answer == "inconclusive"
    assert onset([[much], [much], [worse]]).answer == "does not pay"


def test_a_route_must_beat_every_reference():
    much, worse = ratio(1.5, 1.6, 1.55), ratio(0.5, 0.52, 0.51)
    assert onset([[much, much]] * 3).answer == "pays"
    assert onset([[much, worse]] * 3).answer == "does not pay"
    assert onset([[much, ratio(1.5)]] * 3).answer == "inconclusive"  # one seed decides nothing


@pytest.mark.parametrize("margin", [1.0, 1.2, 2.0])
def test_at_the_margin_there_is_no_advantage(margin):
    """What is tested is 0 where the ratio is the margin, at every length, and above it where the ratio is."""
    at, above = (of_arms((power_law(factor), power_law()), margin=margin) for factor in (margin, 1.1 * margin))
    assert np.array([one.advantages for one in at]) == pytest.approx(np.zeros((3, 2, 3)), abs=1e-12)
    assert np.array([one.advantages for one in above]) == pytest.approx(np.full((3, 2, 3), 0.2 * math.log(1.1)))


@pytest.mark.parametrize("bend", [0.01, -0.01])
def test_the_two_readings_are_on_either_side_of_a_parabola(bend):
    """Half of its distance from the chord away, whichever way it bends; at the lengths they are what was measured."""
    x = np.log([1.0, 3.0, 16.0, 40.0])
    y = bend * x**2 - 0.2 * x
    for at in np.linspace(x[0], x[-1], 23):
        parabola, chord = bend * at**2 - 0.2 * at, np.interp(at, x, y)
        assert between(x, y, at) - parabola == pytest.approx(np.array([0.5, -0.5]) * (chord - parabola))
    assert np.isnan(between(x[:2], y[:2], x[0])).all()  # two lengths cannot tell
    assert [between(x, y, at) for at in x] == pytest.approx(np.stack([y, y], axis=1))


# Log losses by seed and length, on which no line and no order is imposed but that they fall.
ROUTED = np.log([[0.31, 0.26, 0.22], [0.33, 0.25, 0.23], [0.32, 0.27, 0.24]])
BESIDE = {
    "dense": np.add(ROUTED, [[0.03, 0.01, 0.02], [-0.01, 0.04, 0.03], [0.02, 0.02, -0.01]]),
    "control": np.subtract(ROUTED, [[0.02, 0.03, -0.03], [0.04, -0.01, 0.01], [-0.01, 0.02, 0.02]]),
}


@pytest.mark.parametrize("reference", BESIDE)
def test_the_p_value_is_that_of_a_one_sided_paired_t_test_of_log_losses_at_every_length(reference):
    found = [one.p_value for one in simulated.ratios_of(np.array([[ROUTED, BESIDE[reference]]]))]
    expected = stats.ttest_rel(BESIDE[reference], ROUTED, alternative="greater").pvalue
    assert found == pytest.approx(expected, rel=1e-9)


def test_the_sequence_has_the_largest_p_value_from_each_length_to_the_longest():
    by_reference = [stats.ttest_rel(one, ROUTED, alternative="greater").pvalue for one in BESIDE.values()]
    expected = np.maximum.accumulate(np.max(by_reference, axis=0)[::-1])[::-1]
    by_length = zip(*(simulated.ratios_of(np.array([[ROUTED, one]])) for one in BESIDE.values()), strict=True)
    assert onset([*by_length]).p_values == pytest.approx(expected)


@pytest.mark.parametrize("tests", [1, 2])
@pytest.mark.parametrize("references", [1, 3])
def test_the_level_is_five_percent_over_the_sequences_and_for_does_not_pay_over_the_references(tests, references):
    """Studies whose t is a thousandth above and below that of the level."""

    def answer_at(p, sign):
        t = sign * stats.t.isf(p, 2)
        advantages = t / math.sqrt(3) + np.array([-1.0, 0.0, 1.0])  # of spread 1
        one = Ratio(np.zeros(3), np.stack([advantages, advantages]))
        return onset([[one] * references] * 3, tests).answer

    for level, sign, answer in ((0.05 / tests, 1, "pays"), (0.05 / tests / references, -1, "does not pay")):
        assert answer_at(0.999 * level, sign) == answer
        assert answer_at(1.001 * level, sign) == "inconclusive"


# Error rates, in studies by the thousand. `simulated_onsets.py` makes the whole tables.
RUNS = 5000


def at_most(share: float, runs: int = RUNS) -> float:
    """Three standard errors above."""
    return share + 3 * math.sqrt(share * (1 - share) / runs)


@pytest.mark.parametrize("margin", [1.0, 1.3])
def test_many_studies_at_once_are_answered_as_each_by_itself(margin):
    truth = simulated.Truth(ratios=((0.8 * margin, margin, 1.2 * margin), (margin,) * 3), margin=margin, noise=5.0)
    losses = simulated.log_losses(truth, np.random.default_rng(1), 60)
    first, denied = simulated.answers_of(losses, margin)
    for k, study in enumerate(losses):
        own = onset([*zip(*(simulated.ratios_of(study[:, [0, arm]], margin) for arm in (1, 2)), strict=True)])
        assert (own.answer == "pays", own.answer == "does not pay") == (first[k] < len(simulated.COSTS), denied[k])
        assert own.first in (first[k], None)
    assert 0 < np.mean(first < len(simulated.COSTS)) < 1 and 0 < np.mean(denied) < 1


@pytest.mark.parametrize("variant", simulated.VARIANTS)
@pytest.mark.parametrize("name", simulated.NULLS)
def test_five_percent_of_claims_are_false_at_most(name, variant):
    truth, place = simulated.NULLS[name]
    assert simulated.pays_in(replace(truth, **simulated.VARIANTS[variant]), RUNS, place) <= at_most(0.05)


@pytest.mark.parametrize("variant", simulated.VARIANTS)
@pytest.mark.parametrize("name", simulated.DENIALS)
def test_that_it_pays_is_falsely_denied_in_five_percent_at_most(name, variant):
    assert simulated.denied_in(replace(simulated.DENIALS[name], **simulated.VARIANTS[variant]), RUNS) <= at_most(0.05)


def test_an_effect_is_found():
    assert simulated.pays_in(simulated.Truth(ratios=((1 / 1.5, 1.0, 1.5),) * 2), RUNS) > 0.99
    assert simulated.denied_in(simulated.at_margin(2.0, 1.6), RUNS) > 0.95
