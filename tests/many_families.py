"""Adjusted p-values of many simulated families at once; `core/test_statistics.py` compares them with our own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def holm_of_each(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """`statistics.holm` of every family of an array, the tests of a family along its last axis."""
    order = p_values.argsort(axis=-1)
    left = p_values.shape[-1] - np.arange(p_values.shape[-1])
    rising = np.maximum.accumulate(np.minimum(1, np.take_along_axis(p_values, order, -1) * left), axis=-1)
    adjusted = np.empty_like(p_values)
    np.put_along_axis(adjusted, order, rising, -1)
    return adjusted
