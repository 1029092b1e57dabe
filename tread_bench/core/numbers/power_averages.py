"""Power-function averages of weights, and any other one reconstructed from snapshots of some (EDM2, arXiv 2312.02696).

An average of exponent g after t steps weighs the weights after step s by the integral over [s - 1, s] of its profile
p(τ; t) = (g + 1) τ^g / t^(g + 1) on [0, t]. Its width is the standard deviation of τ under p, relative to t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Profile(NamedTuple):
    """How much an average of `exponent` after `end` steps owes to each moment before."""

    exponent: float
    end: float


class Fit(NamedTuple):
    """Coefficients that sum to 1, and the correlation (cosine) of the profile that they make with the wanted one."""

    coefficients: NDArray[np.float64]
    correlation: float


def width_of(exponent: float) -> float:
    """Return the width of a profile, relative to its end."""
    return math.sqrt((exponent + 1) / (exponent + 3)) / (exponent + 2)


def exponent_of(width: float) -> float:
    """Return the exponent, 0 or more, of a profile whose width lies in (0, WIDEST]."""
    variance = width**2  # (g + 1) / ((g + 2)² (g + 3)), which is a cubic in g; it falls from g = 0 on
    roots = np.roots([variance, 7 * variance, 16 * variance - 1, 12 * variance - 1])
    return max(0.0, float(roots.real[abs(roots.imag) < 1e-6].max()))


def decay_at(step: int, exponent: float) -> float:
    """Return what is left of an average at `step` (from 0): (1 - 1 / t)^(g + 1) at its t = step + 1."""
    return float((step / (step + 1)) ** (exponent + 1))


def inner_products(ones: Sequence[Profile], others: Sequence[Profile]) -> NDArray[np.float64]:
    """Return the integral of the product of each profile with each of the others, (len(ones), len(others))."""
    a, s = (column[:, None] for column in _columns(ones))
    b, t = _columns(others)
    shorter, longer = np.minimum(s, t), np.maximum(s, t)
    powers = (shorter / s) ** a * (shorter / t) ** b  # of ratios, which no exponent makes overflow
    return (a + 1) * (b + 1) / (a + b + 1) * powers / longer


def fit(stored: Sequence[Profile], wanted: Profile) -> Fit:
    """Return the combination of stored profiles that is nearest to the wanted one in least squares.

    The coefficients sum to 1, as those of an average do; the free optimum, which correlates better by less than 1e-4,
    would scale all weights, by 0.98 at width 0.20 from eight snapshots of 0.05 and 0.10.

    Args:
        stored: all different.
    """
    # Profiles of unit norm, so that the system is well-conditioned.
    products = inner_products(stored, stored)
    norms = np.sqrt(products.diagonal())
    gram = products / np.outer(norms, norms)
    overlaps = inner_products(stored, [wanted])[:, 0]

    # The free optimum, and the direction in which the sum changes at the least cost.
    free, towards = (np.linalg.solve(gram, side / norms) / norms for side in (overlaps, np.ones(len(stored))))
    coefficients = free + towards * (1 - free.sum()) / towards.sum()

    length = math.sqrt(coefficients @ products @ coefficients * inner_products([wanted], [wanted]).item())
    return Fit(coefficients, min(1.0, float(coefficients @ overlaps / length)))  # a stored one may round above 1


def _columns(profiles: Sequence[Profile]) -> NDArray[np.float64]:
    """Exponents and ends, (2, len(profiles))."""
    return np.array(profiles, dtype=np.float64).T
