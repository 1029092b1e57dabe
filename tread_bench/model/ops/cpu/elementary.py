"""Elementary functions in a form that loops of them become vector instructions: a call of libm would prevent that.

By polynomials, within a few units in the last place; the logarithm in float64, where its speed does not count, by libm.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numba.extending import overload

from tread_bench.model.ops.cpu.compiling import EXACT

# All that changes bits is stated: Numba takes what is not from the first caller that it compiles the function for.
exact = njit(fastmath=EXACT, error_model="numpy")


def exp(x):
    """e^x; 0 below -87.6 and inf above 88.3 in float32, -708.7 and 709.4 in float64."""
    raise NotImplementedError("only where Numba compiles")


def log1p(x):
    """log(1 + x) for x in [0, 1]."""
    raise NotImplementedError("only where Numba compiles")


@exact
def _exp32(x):
    """2^n e^r with |r| <= ln(2) / 2: n is rounded by adding a number that leaves no bits behind the point."""
    f = np.float32
    x = f(-88.0) if x < f(-88.0) else x  # n = -127, whose power of two is 0
    x = f(89.0) if x > f(89.0) else x  # n = 128, whose power of two is inf
    shifted = np.float32(x * f(1.44269504) + f(12582912.0))  # 1.5 2^23
    n = shifted - f(12582912.0)
    r = x - n * f(0.693359375) - n * f(-2.12194440e-4)  # ln(2), in two parts
    p = f(1 / 5040)
    p = p * r + f(1 / 720)
    p = p * r + f(1 / 120)
    p = p * r + f(1 / 24)
    p = p * r + f(1 / 6)
    p = p * r + f(0.5)
    p = p * r + f(1.0)
    p = p * r + f(1.0)
    return p * np.int32((np.float32(shifted).view(np.int32) + 127) << 23).view(np.float32)


@exact
def _exp64(x):
    """The same with six terms more."""
    x = -709.0 if x < -709.0 else x
    x = 710.0 if x > 710.0 else x
    shifted = x * 1.4426950408889634 + 6755399441055744.0  # 1.5 2^52
    n = shifted - 6755399441055744.0
    r = x - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10
    p = 1 / 6227020800
    p = p * r + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)


@exact
def _log1p32(x):
    """2 artanh(x / (2 + x)), whose argument is at most 1/3."""
    f = np.float32
    s = x / (f(2.0) + x)
    q = s * s
    p = f(1 / 15)
    p = p * q + f(1 / 13)
    p = p * q + f(1 / 11)
    p = p * q + f(1 / 9)
    p = p * q + f(1 / 7)
    p = p * q + f(1 / 5)
    p = p * q + f(1 / 3)
    p = p * q + f(1.0)
    return f(2.0) * s * p


@overload(exp)
def _(x):
    return (lambda x: _exp32(x)) if x.bitwidth == 32 else (lambda x: _exp64(x))


@overload(log1p)
def _(x):
    return (lambda x: _log1p32(x)) if x.bitwidth == 32 else (lambda x: math.log1p(x))


@exact
def softplus(x, real):
    """log(1 + e^x) in `real`, float32 or float64."""
    return (x if x > real(0) else real(0)) + log1p(exp(-abs(x)))


@exact
def sigmoid(x, real):
    """1 / (1 + e^-x)."""
    return real(1) / (real(1) + exp(-x))


@njit
def copy(source, row):
    """The whole source to the front of a row."""
    for d in range(source.size):
        row[d] = source[d]
