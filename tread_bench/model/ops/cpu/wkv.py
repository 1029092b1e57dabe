"""Bi-WKV (`ops.wkv`) in float64, relative to the largest k of the sequence: exponents may spread by 700.

Shapes: B batch, T tokens, C channels, W of a block; "2" numerator and denominator, whose terms are f v and f with
f = e^(k - largest k). Loops over channels are short: LLVM gives up where one has too many rows to tell apart.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

from functools import cache

import numpy as np

from tread_bench.model.ops.cpu.compiling import VECTOR, Kernel, compiled, inner
from tread_bench.model.ops.cpu.elementary import copy, exp

DECAY, OWN, LARGEST = range(3)  # rows by channel: e^-w, e^u, and of k


@cache
def wkv_kernels(real: type) -> tuple[Kernel, Kernel]:
    """Forward and backward pass over the items first .. last - 1; in- and outputs are `real`, float32 or float64."""

    def forward(first, last, vectors, w, u, k, v, y):
        width = VECTOR * vectors
        length, channels = k.shape[1], k.shape[2]
        f, terms, before = np.empty((length, width)), np.ones((length, 2, width)), np.empty((length, 2, width))
        channel, sums, ratio = np.empty((3, width)), np.empty((2, width)), np.empty(width)
        for item in range(first, last):
            block, b = divmod(item, k.shape[0])
            start, stop = block * width, min(block * width + width, channels)
            _load(w[start:stop], u[start:stop], k[b, :, start:stop], v[b, :, start:stop], f, terms, channel, width)
            _sums_before(f, terms, channel, before, sums, width)

            # From the last token: sums over those behind it, its own term, and the ratio of both sums.
            for step in range(length):
                t = length - 1 - step
                for j in range(2):
                    for c in range(width):
                        before[t, j, c] += sums[j, c] + channel[OWN, c] * f[t, c] * terms[t, j, c]
                for c in range(width):
                    ratio[c] = before[t, 0, c] / before[t, 1, c]
                copy(ratio[: stop - start], y[b, t, start:stop])
                _add(sums, channel, f, terms, t, width)

    def backward(first, last, vectors, grad, w, u, k, v, grad_w, grad_u, grad_k, grad_v):
        """g are the gradients of numerator and denominator, x those of f v and f."""
        width = VECTOR * vectors
        length, channels = k.shape[1], k.shape[2]
        f, terms, before = np.empty((length, width)), np.ones((length, 2, width)), np.empty((length, 2, width))
        after, g, x = np.empty((length, 2, width)), np.empty((length, 2, width)), np.empty((length, 2, width))
        channel, sums, g_sums, total = (
            np.empty((3, width)),
            np.empty((2, width)),
            np.empty((2, width)),
            np.empty((2, width)),
        )
        ones, gy, gw, gu = np.ones((length, width)), np.zeros(width), np.empty(width), np.empty(width)
        for item in range(first, last):
            block, b = divmod(item, k.shape[0])
            start, stop = block * width, min(block * width + width, channels)
            _load(w[start:stop], u[start:stop], k[b, :, start:stop], v[b, :, start:stop], f, terms, channel, width)
            _sums_before(f, terms, channel, before, sums, width)
            gy[:], gw[:], gu[:], g_sums[:] = 0, 0, 0, 0

            # From the last token: the sums again, their gradients g, and what they mean for w, u and later tokens.
            for step in range(length):
                t = length - 1 - step
                copy(grad[b, t, start:stop], gy)
                for j in range(2):
                    for c in range(width):
                        after[t, j, c] = sums[j, c]
                    for c in range(width):
                        total[j, c] = before[t, j, c] + sums[j, c] + channel[OWN, c] * f[t, c] * terms[t, j, c]
                for c in range(width):
                    g[t, 0, c] = gy[c] / total[1, c]
                    g[t, 1, c] = -g[t, 0, c] * total[0, c] / total[1, c]
                for j in range(2):
                    for c in range(width):
                        gw[c] += before[t, j, c] * g_sums[j, c]
                    for c in range(width):
                        gu[c] += channel[OWN, c] * f[t, c] * g[t, j, c] * terms[t, j, c]
                    for c in range(width):
                        x[t, j, c] = g_sums[j, c] + channel[OWN, c] * g[t, j, c]
                _add(sums, channel, f, terms, t, width)
                _add(g_sums, channel, ones, g, t, width)

            # From the first token: what g means for earlier ones; then x is that of v and k.
            g_sums[:] = 0
            for t in range(length):
                for j in range(2):
                    for c in range(width):
                        gw[c] += after[t, j, c] * g_sums[j, c]
                    for c in range(width):
                        x[t, j, c] += g_sums[j, c]
                for c in range(width):
                    x[t, 1, c] = f[t, c] * (terms[t, 0, c] * x[t, 0, c] + x[t, 1, c])
                for c in range(width):
                    x[t, 0, c] *= f[t, c]
                _add(g_sums, channel, ones, g, t, width)
                copy(x[t, 0, : stop - start], grad_v[b, t, start:stop])
                copy(x[t, 1, : stop - start], grad_k[b, t, start:stop])

            # By the chain rule through e^-w.
            for c in range(width):
                gw[c] *= -channel[DECAY, c]
            copy(gw[: stop - start], grad_w[b, start:stop])
            copy(gu[: stop - start], grad_u[b, start:stop])

    return compiled(forward, real), compiled(backward, real)


@inner
def _load(w, u, k_TW, v_TW, f, terms, channel, width):
    """A block's inputs as e^(k - largest k), v, e^-w and e^u."""
    length = f.shape[0]
    channel[:], f[:], terms[:, 0] = 0, 0, 0
    copy(w, channel[DECAY])
    copy(u, channel[OWN])
    for t in range(length):
        copy(k_TW[t], f[t])
        copy(v_TW[t], terms[t, 0])
    channel[LARGEST] = f[0]
    for t in range(length):
        for c in range(width):
            channel[LARGEST, c] = max(channel[LARGEST, c], f[t, c])
    for c in range(width):
        channel[DECAY, c] = exp(-channel[DECAY, c])
        channel[OWN, c] = exp(channel[OWN, c])
    for t in range(length):
        for c in range(width):
            f[t, c] = exp(f[t, c] - channel[LARGEST, c])


@inner
def _sums_before(f, terms, channel, before, sums, width):
    """Of the terms of all tokens before each one; the sums are empty again afterwards."""
    sums[:] = 0
    for t in range(f.shape[0]):
        for j in range(2):
            for c in range(width):
                before[t, j, c] = sums[j, c]
        _add(sums, channel, f, terms, t, width)
    sums[:] = 0


@inner
def _add(sums, channel, f, terms, t, width):
    """One token more: all others are one token further away."""
    for j in range(2):
        for c in range(width):
            sums[j, c] = sums[j, c] * channel[DECAY, c] + f[t, c] * terms[t, j, c]
