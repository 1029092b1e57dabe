"""What DiT's two branches compute beside their matrix products (Peebles and Xie, ICCV 2023): adaLN-Zero, GELU, softmax.

Shapes: B batch, N tokens, D width, H heads of E = D / H channels, M width of the MLP. Kernels work on the samples
first .. last - 1. Loops over channels store one row each: LLVM gives up where it has too many rows to tell apart, and
does not see that two of them are the same, so no output may be an input as well.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace

import numpy as np

from tread_bench.model.ops.cpu.compiling import compiled
from tread_bench.model.ops.cpu.elementary import exp


@cache
def adaln_kernels(real: type) -> SimpleNamespace:
    """Forward and backward passes by name; in- and outputs are `real`, float32 or float64."""
    steep = real(-2 * math.sqrt(2 / math.pi))  # tanh(u) = 2 sigmoid(2 u) - 1
    cubic = real(0.044715)
    one, three, zero = real(1), real(3), real(0)

    def norm(first, last, x, modulation, at, epsilon, y, stats):
        """y = xhat (1 + scale) + shift, where xhat is x (B, N, D), normalised over D without a gain.

        modulation (B, 6 D) holds shift from column `at` on, then scale; stats (2, B, N) become the means and the
        inverse standard deviations.
        """
        tokens, width = x.shape[1], x.shape[2]
        for b in range(first, last):
            shift, scale = modulation[b, at : at + width], modulation[b, at + width : at + 2 * width]
            for n in range(tokens):
                row, out = x[b, n], y[b, n]
                mean, variance = zero, zero
                for d in range(width):
                    mean += row[d]
                mean /= real(width)
                for d in range(width):
                    variance += (row[d] - mean) * (row[d] - mean)
                inverse = one / np.sqrt(variance / real(width) + real(epsilon))
                stats[0, b, n], stats[1, b, n] = mean, inverse
                for d in range(width):
                    out[d] = (row[d] - mean) * inverse * (one + scale[d]) + shift[d]

    def norm_back(first, last, grad, x, modulation, at, stats, residual, grad_x, sums):
        """Add the gradient of x to `residual`, the one that bypasses the branch; those of shift and scale go to the
        columns of `sums` that they have in `modulation`.
        """
        tokens, width = x.shape[1], x.shape[2]
        for b in range(first, last):
            scale = modulation[b, at + width : at + 2 * width]
            to_shift, to_scale = sums[b, at : at + width], sums[b, at + width : at + 2 * width]
            to_shift[:], to_scale[:] = zero, zero
            for n in range(tokens):
                row, back, past, out = x[b, n], grad[b, n], residual[b, n], grad_x[b, n]
                mean, inverse = stats[0, b, n], stats[1, b, n]
                total, along = zero, zero
                for d in range(width):
                    total += back[d] * (one + scale[d])
                    along += back[d] * (one + scale[d]) * (row[d] - mean)
                total /= real(width)
                along *= inverse * inverse / real(width)
                for d in range(width):
                    out[d] = past[d] + inverse * (back[d] * (one + scale[d]) - total - (row[d] - mean) * along)
                for d in range(width):
                    to_shift[d] += back[d]
                for d in range(width):
                    to_scale[d] += back[d] * (row[d] - mean) * inverse

    def gate(first, last, x, modulation, at, update, bias, y):
        """y = x + gates (update + bias), where update (B, N, D) is a product."""
        tokens, width = x.shape[1], x.shape[2]
        for b in range(first, last):
            gates = modulation[b, at : at + width]
            for n in range(tokens):
                row, new, out = x[b, n], update[b, n], y[b, n]
                for d in range(width):
                    out[d] = row[d] + gates[d] * (new[d] + bias[d])

    def gate_back(first, last, grad, modulation, at, update, bias, grad_update, sums, at_bias):
        tokens, width = grad.shape[1], grad.shape[2]
        for b in range(first, last):
            gates = modulation[b, at : at + width]
            to_gate, to_bias = sums[b, at : at + width], sums[b, at_bias : at_bias + width]
            to_gate[:], to_bias[:] = zero, zero
            for n in range(tokens):
                back, new, out = grad[b, n], update[b, n], grad_update[b, n]
                for d in range(width):
                    to_gate[d] += back[d] * (new[d] + bias[d])
                for d in range(width):
                    out[d] = back[d] * gates[d]
                for d in range(width):
                    to_bias[d] += back[d] * gates[d]

    def gelu(first, last, a, bias, y):
        """y = v sigmoid(2 sqrt(2 / pi) (v + 0.044715 v^3)) with v = a + bias: GELU by tanh, of a (B, N, M)."""
        tokens, width = a.shape[1], a.shape[2]
        for b in range(first, last):
            for n in range(tokens):
                row, out = a[b, n], y[b, n]
                for d in range(width):
                    v = row[d] + bias[d]
                    out[d] = v / (one + exp(steep * (v + cubic * v * v * v)))

    def gelu_back(first, last, grad, a, bias, grad_a, sums, at_bias):
        tokens, width = a.shape[1], a.shape[2]
        for b in range(first, last):
            to_bias = sums[b, at_bias : at_bias + width]
            to_bias[:] = zero
            for n in range(tokens):
                row, back, out = a[b, n], grad[b, n], grad_a[b, n]
                for d in range(width):
                    v = row[d] + bias[d]
                    s = one / (one + exp(steep * (v + cubic * v * v * v)))
                    out[d] = back[d] * s * (one - v * (one - s) * steep * (one + three * cubic * v * v))
                for d in range(width):
                    to_bias[d] += out[d]

    def split_back(first, last, grad_heads, grad_qkv, sums, at_bias):
        """From queries, keys and values (3, B, H, N, E), head by head, to the product (B, N, 3 D) and its bias."""
        tokens, per_sample, channels = grad_heads.shape[3], grad_heads.shape[2], grad_heads.shape[4]
        for b in range(first, last):
            to_bias = sums[b, at_bias : at_bias + grad_qkv.shape[2]]
            to_bias[:] = zero
            for n in range(tokens):
                row = grad_qkv[b, n]
                for part in range(3):
                    for h in range(per_sample):
                        start, back = (part * per_sample + h) * channels, grad_heads[part, b, h, n]
                        out = row[start : start + channels]
                        for e in range(channels):
                            out[e] = back[e]
                for d in range(row.size):
                    to_bias[d] += row[d]

    def softmax(first, last, scores, factor):
        """Of factor * scores (B, H, N, N) along each row, in place."""
        per_sample, tokens = scores.shape[1], scores.shape[2]
        factor = real(factor)
        for b in range(first, last):
            for h in range(per_sample):
                for n in range(tokens):
                    row = scores[b, h, n]
                    largest, total = row[0], zero
                    for m in range(tokens):
                        largest = max(largest, row[m])
                    for m in range(tokens):
                        row[m] = exp(factor * (row[m] - largest))
                    for m in range(tokens):
                        total += row[m]
                    total = one / total
                    for m in range(tokens):
                        row[m] *= total

    def softmax_back(first, last, weights, factor, grad):
        """The gradient of the weights becomes that of the scores."""
        per_sample, tokens = grad.shape[1], grad.shape[2]
        factor = real(factor)
        for b in range(first, last):
            for h in range(per_sample):
                for n in range(tokens):
                    row, weight = grad[b, h, n], weights[b, h, n]
                    total = zero
                    for m in range(tokens):
                        total += row[m] * weight[m]
                    for m in range(tokens):
                        row[m] = factor * weight[m] * (row[m] - total)

    passes = (norm, norm_back, gate, gate_back, gelu, gelu_back, split_back, softmax, softmax_back)
    return SimpleNamespace(**{kernel.__name__: compiled(kernel, real) for kernel in passes})
