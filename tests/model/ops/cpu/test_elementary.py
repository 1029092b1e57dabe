"""Elementary functions of compiled loops against numpy in a wider type."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from tread_bench.model.ops.cpu import elementary
from tread_bench.model.ops.cpu.elementary import exp, log1p, sigmoid, softplus


@njit
def apply_exp(x, y):
    for i in range(x.size):
        y[i] = exp(x[i])


@njit
def apply_log1p(x, y):
    for i in range(x.size):
        y[i] = log1p(x[i])


def applied(function, x):
    y = np.empty_like(x)
    function(x, y)
    return y


SMALL = np.concatenate([np.linspace(0.001, 1, 10_001), 10.0 ** -np.arange(3, 37)])


@pytest.mark.parametrize(
    ("function", "exact", "x", "limit"),
    [
        (apply_exp, np.exp, np.linspace(-87, 87, 200_001, dtype=np.float32), 1e-7),
        (apply_exp, np.exp, np.linspace(-708, 708, 200_001), 5e-16),
        (apply_log1p, np.log1p, SMALL.astype(np.float32), 3e-7),
        (apply_log1p, np.log1p, SMALL, 5e-16),
    ],
)
def test_they_are_exact_to_the_last_places(function, exact, x, limit):
    assert np.abs(applied(function, x) / exact(x.astype(np.longdouble)) - 1).max() <= limit


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_exp_of_what_is_no_ordinary_number(real):
    x = np.array([np.nan, np.inf, -np.inf, 0, -1000, 1000], dtype=real)
    np.testing.assert_array_equal(applied(apply_exp, x), np.array([np.nan, np.inf, 0, 1, 0, np.inf], dtype=real))
    assert np.isnan(applied(apply_log1p, x[:1]))


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_softplus_and_sigmoid_keep_their_limits(real):
    @njit
    def both(x, y):
        for i in range(x.size):
            y[0, i], y[1, i] = softplus(x[i], real), sigmoid(x[i], real)

    x, y = np.array([-1000, -20, 0, 20, 1000, np.nan], dtype=real), np.empty((2, 6), dtype=real)
    both(x, y)
    wide = x[:5].astype(np.longdouble)
    np.testing.assert_allclose(y[0, :5], np.logaddexp(0, wide), rtol=3e-7, atol=1e-300)
    np.testing.assert_allclose(y[1, :5], np.exp(-np.logaddexp(0, -wide)), rtol=3e-7, atol=1e-300)
    assert np.isnan(y[:, 5]).all()


@pytest.mark.parametrize("name", ["_exp32", "_exp64", "_log1p32", "softplus", "sigmoid"])
def test_no_option_that_changes_bits_comes_from_the_caller_that_is_compiled_first(name):
    assert getattr(elementary, name).targetoptions.keys() >= {"fastmath", "error_model"}
