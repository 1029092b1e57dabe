"""Power-function averages against closed forms, numerical integration, and averages that are kept directly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate

from tread_bench.core.config.training import WIDEST
from tread_bench.core.numbers.power_averages import (
    Profile,
    decay_at,
    exponent_of,
    fit,
    inner_products,
    width_of,
)

STORED = (0.05, 0.10)  # EDM2's
WANTED = (0.03, 0.05, 0.07, 0.10, 0.13, 0.16, 0.20)
NUMBERS = (8, 16, 32)
BOTH = [*itertools.product(NUMBERS, WANTED)]


def snapshots(number: int, steps: float = 1.0) -> list[Profile]:
    """Profiles of both stored averages at equally spaced steps."""
    return [Profile(exponent_of(width), steps * k / number) for width in STORED for k in range(1, number + 1)]


def value(profile: Profile, time: np.ndarray) -> np.ndarray:
    """Of the profile at some times."""
    g, t = profile
    return np.where(time <= t, (g + 1) * time**g / t ** (g + 1), 0.0)


def discrete(profile: Profile, steps: int) -> np.ndarray:
    """What an average owes to the weights after each step, by its recurrence."""
    shares = np.zeros(steps)
    for step in range(int(profile.end)):
        shares *= decay_at(step, profile.exponent)
        shares[step] = 1 - decay_at(step, profile.exponent)
    return shares


@pytest.mark.parametrize("width", [0.001, 0.01, 0.05, 0.1, 0.2, 0.28, WIDEST])
def test_a_width_is_the_deviation_of_its_profile(width):
    g = exponent_of(width)
    assert width_of(g) == pytest.approx(width, rel=1e-9)
    moments = [integrate.quad(lambda u, k=k: (g + 1) * u ** (g + k), 0, 1, points=[1 - width])[0] for k in range(3)]
    assert moments[0] == pytest.approx(1)
    assert np.sqrt(moments[2] - moments[1] ** 2) == pytest.approx(width, rel=1e-4)


def test_edm2_states_these_exponents():
    assert [round(exponent_of(width), 2) for width in STORED] == [16.97, 6.94]


def test_the_recurrence_has_the_profile():
    """Its share of a step is the integral of the profile over that step, exactly."""
    profile, steps = Profile(exponent_of(0.1), 200), np.arange(201) / 200
    assert np.allclose(discrete(profile, 200), np.diff(steps ** (profile.exponent + 1)), rtol=1e-10, atol=0)


def test_inner_products_are_integrals():
    profiles = [Profile(g, t) for g, t in itertools.product((0.0, 0.7, 6.94, 16.97), (0.3, 0.5, 1.0))]
    found = inner_products(profiles, profiles)
    for (i, one), (j, other) in itertools.product(enumerate(profiles), repeat=2):
        end = min(one.end, other.end)
        expected = integrate.quad(lambda u, a=one, b=other: float(value(a, u) * value(b, u)), 0, end)[0]
        assert found[i, j] == pytest.approx(expected, rel=1e-8)


def test_inner_products_of_long_trainings_do_not_overflow():
    near, far = Profile(exponent_of(0.005), 1e3), Profile(exponent_of(0.01), 1e7)
    assert np.isfinite(inner_products([near, far], [near, far])).all()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("width", STORED)
def test_stored_widths_come_back(number, width):
    stored = snapshots(number, 1e6)
    wanted = Profile(exponent_of(width), 1e6)
    coefficients, correlation = fit(stored, wanted)
    assert np.abs(coefficients - [float(profile == wanted) for profile in stored]).max() <= 1e-6
    assert correlation == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("number", "width"), BOTH)
def test_other_widths_are_near(number, width):
    stored, wanted = snapshots(number), Profile(exponent_of(width), 1.0)
    coefficients, correlation = fit(stored, wanted)
    assert correlation >= 0.99 and coefficients.sum() == pytest.approx(1)

    # The correlation that is stated is that of the profiles, by numerical integration.
    time = (np.arange(200_000) + 0.5) / 200_000
    made = sum(c * value(profile, time) for c, profile in zip(coefficients, stored, strict=True))
    aim = value(wanted, time)
    assert correlation == pytest.approx(made @ aim / np.sqrt(made @ made * (aim @ aim)), abs=1e-4)


def test_no_correlation_rounds_above_one():
    """Records refuse one that does."""
    found = [
        fit(snapshots(number, steps), Profile(exponent_of(width), steps)).correlation
        for number, steps, width in itertools.product(NUMBERS, range(100, 600, 37), STORED)
    ]
    assert max(found) == 1.0


def test_eight_snapshots_do_not_reach_a_width_of_two_percent():
    found = [fit(snapshots(number), Profile(exponent_of(0.02), 1.0)).correlation for number in NUMBERS]
    assert found == pytest.approx([0.969, 0.993, 0.999], abs=1e-3)


def test_it_is_the_nearest_of_all_that_sum_to_one():
    stored, wanted = snapshots(4), Profile(exponent_of(0.08), 1.0)
    best = fit(stored, wanted).coefficients
    gram, overlaps = inner_products(stored, stored), inner_products(stored, [wanted])[:, 0]

    def distance(x: np.ndarray) -> float:
        return float(x @ gram @ x - 2 * x @ overlaps)

    rng = np.random.default_rng(0)
    for _ in range(200):
        aside = rng.normal(size=len(stored)) * 1e-3
        assert distance(best + aside - aside.mean()) > distance(best)


@pytest.mark.parametrize(("number", "width"), BOTH)
def test_weights_differ_from_a_direct_average_by_what_the_profiles_predict(number, width):
    """Of weights that wander at random for 640 steps."""
    steps = 640
    rng = np.random.default_rng(7)
    path = rng.normal(size=(steps, 50)).cumsum(0)
    stored, wanted = snapshots(number, steps), Profile(exponent_of(width), steps)

    def kept(profile: Profile) -> np.ndarray:
        average = np.zeros(50)
        for step in range(int(profile.end)):
            average += (1 - decay_at(step, profile.exponent)) * (path[step] - average)
        return average

    # The two averages.
    coefficients = fit(stored, wanted).coefficients
    made = sum(c * kept(profile) for c, profile in zip(coefficients, stored, strict=True))
    difference = made - kept(wanted)

    # What their profiles say.
    apart = sum(c * discrete(profile, steps) for c, profile in zip(coefficients, stored, strict=True))
    predicted = (apart - discrete(wanted, steps)) @ path
    assert difference == pytest.approx(predicted, abs=1e-10 * np.abs(path).max())
    assert np.abs(difference).max() < (1e-9 if width in STORED else 0.05 * path[-1].std())
