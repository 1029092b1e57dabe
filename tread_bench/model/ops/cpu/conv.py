"""Mamba's convolution and its silu (`ops.conv`). Shapes: B batch, L length, D channels, K taps, W of a block."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import cache

import numpy as np

from tread_bench.model.ops.cpu.compiling import VECTOR, Kernel, compiled
from tread_bench.model.ops.cpu.elementary import copy, sigmoid


@cache
def conv_kernels(real: type) -> tuple[Kernel, Kernel]:
    """silu of a causal depthwise convolution, forward and backward, over the items first .. last - 1.

    The last K rows are kept in a ring: the row of step s lies at s % K, those before the first are zero.
    """

    def forward(first, last, vectors, x, weight_KD, bias, reverse, out):
        width = VECTOR * vectors
        length, channels, taps = x.shape[1], x.shape[2], weight_KD.shape[0]
        weight, ring = np.zeros((taps, width), x.dtype), np.zeros((taps, width), x.dtype)
        shift, y = np.zeros(width, x.dtype), np.zeros(width, x.dtype)
        for item in range(first, last):
            block, b = divmod(item, x.shape[0])
            start, stop = block * width, min(block * width + width, channels)
            weight[:], ring[:], shift[:] = 0, 0, 0
            copy(bias[start:stop], shift)
            for k in range(taps):
                copy(weight_KD[k, start:stop], weight[k])
            for step in range(length):
                t = length - 1 - step if reverse else step
                copy(x[b, t, start:stop], ring[step % taps])
                copy(shift, y)
                for k in range(taps):
                    row, weight_k = ring[(step + 1 + k) % taps], weight[k]
                    for d in range(width):
                        y[d] += weight_k[d] * row[d]
                for d in range(width):
                    y[d] *= sigmoid(y[d], real)
                copy(y[: stop - start], out[b, t, start:stop])

    def backward(first, last, vectors, grad, x, weight_KD, bias, reverse, grad_x, grad_weight, grad_bias):
        width = VECTOR * vectors
        length, channels, taps = x.shape[1], x.shape[2], weight_KD.shape[0]
        scratch = np.zeros((4, taps, width), x.dtype)
        weight, ring, grad_ring, gw = scratch[0], scratch[1], scratch[2], scratch[3]
        rows = np.zeros((4, width), x.dtype)
        shift, y, g, gb = rows[0], rows[1], rows[2], rows[3]
        for item in range(first, last):
            block, b = divmod(item, x.shape[0])
            start, stop = block * width, min(block * width + width, channels)
            w = stop - start

            # The block's weights, and the last inputs in the ring.
            scratch[:] = 0
            rows[:] = 0
            copy(bias[start:stop], shift)
            for k in range(taps):
                copy(weight_KD[k, start:stop], weight[k])
            for step in range(max(length - taps + 1, 0), length):
                copy(x[b, length - 1 - step if reverse else step, start:stop], ring[step % taps])

            # From the end: one input enters the ring, and its gradient leaves the other.
            for step in range(length - 1, -1, -1):
                t = length - 1 - step if reverse else step
                entering = step - taps + 1
                if entering < 0:
                    ring[entering % taps] = 0
                else:
                    copy(x[b, length - 1 - entering if reverse else entering, start:stop], ring[entering % taps])

                # The output before SiLU, and its gradient.
                copy(grad[b, t, start:stop], g)
                copy(shift, y)
                for k in range(taps):
                    row, weight_k = ring[(step + 1 + k) % taps], weight[k]
                    for d in range(width):
                        y[d] += weight_k[d] * row[d]
                for d in range(width):
                    s = sigmoid(y[d], real)
                    g[d] *= s * (real(1) + y[d] * (real(1) - s))
                    gb[d] += g[d]

                # Gradients of the weights and of the inputs under the taps.
                for k in range(taps):
                    row = ring[(step + 1 + k) % taps]
                    grad_row = grad_ring[(step + 1 + k) % taps]
                    weight_k = weight[k]
                    gw_k = gw[k]
                    for d in range(width):
                        gw_k[d] += g[d] * row[d]
                        grad_row[d] += g[d] * weight_k[d]
                copy(grad_ring[step % taps, :w], grad_x[b, t, start:stop])
                grad_ring[step % taps] = 0
            for k in range(taps):
                copy(gw[k, :w], grad_weight[b, k, start:stop])
            copy(gb[:w], grad_bias[b, start:stop])

    return compiled(forward, real), compiled(backward, real)
