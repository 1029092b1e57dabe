"""The selective scan (`ops.scan`). Shapes: B batch, L length, D channels, N states per channel, W channels of a block.

Inside an item `k` counts the steps of a chunk; row k of u, raw, delta and x holds u, delta before softplus, delta and
delta u of a step.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

from functools import cache

import numpy as np

from tread_bench.model.ops.cpu.compiling import VECTOR, Kernel, compiled, inner
from tread_bench.model.ops.cpu.elementary import copy, exp, sigmoid, softplus

CHUNK = 16  # steps from one kept state to the next


@cache
def scan_kernels(real: type) -> tuple[Kernel, Kernel]:
    """Forward and backward pass over the items first .. last - 1, in float32 or float64 (`real`)."""

    def forward(first, last, vectors, u, delta, A_ND, B, C, D, z, bias, soft, reverse, out, y, states):
        width = VECTOR * vectors
        length, channels, order = u.shape[1], u.shape[2], A_ND.shape[0]
        A, h = np.zeros((order, width), u.dtype), np.zeros((order, width), u.dtype)
        rows = np.zeros((8, width), u.dtype)
        u_t, raw_t, delta_t, x_t = rows[0], rows[1], rows[2], rows[3]
        y_t, gate, skip, shift = rows[4], rows[5], rows[6], rows[7]
        for item in range(first, last):
            block, b = divmod(item, u.shape[0])
            start, stop = block * width, min(block * width + width, channels)

            # The block's parameters; what lies beyond its channels is zero.
            A[:] = 0
            h[:] = 0
            rows[:] = 0
            copy(D[start:stop], skip)
            copy(bias[start:stop], shift)
            for n in range(order):
                copy(A_ND[n, start:stop], A[n])
            for step in range(length):
                t = length - 1 - step if reverse else step
                if step % CHUNK == 0 and step > 0:
                    for n in range(order):
                        copy(h[n, : stop - start], states[b, step // CHUNK - 1, n, start:stop])

                # One step of the recurrence, and its output.
                copy(u[b, t, start:stop], u_t)
                copy(delta[b, t, start:stop], raw_t)
                _step_size(u_t, raw_t, delta_t, x_t, shift, soft, width, real)
                for d in range(width):
                    y_t[d] = skip[d] * u_t[d]
                for n in range(order):
                    h_n, A_n, B_n, C_n = h[n], A[n], B[b, t, n], C[b, t, n]
                    for d in range(width):
                        h_n[d] = exp(delta_t[d] * A_n[d]) * h_n[d] + x_t[d] * B_n
                        y_t[d] += C_n * h_n[d]

                # The gate.
                if z.size:
                    copy(y_t[: stop - start], y[b, t, start:stop])
                    copy(z[b, t, start:stop], gate)
                    for d in range(width):
                        y_t[d] *= gate[d] * sigmoid(gate[d], real)
                copy(y_t[: stop - start], out[b, t, start:stop])

    def backward(
        first, last, vectors, grad, u, delta, A_ND, B, C, D, z, bias, soft, reverse, y, states,
        grad_u, grad_delta, grad_A, grad_B, grad_C, grad_D, grad_z, grad_bias,
    ):  # fmt: skip
        width = VECTOR * vectors
        length, channels, order = u.shape[1], u.shape[2], A_ND.shape[0]
        by_state = np.zeros((3, order, width), u.dtype)
        A, g, gA = by_state[0], by_state[1], by_state[2]
        a, h = np.empty((CHUNK, order, width), u.dtype), np.empty((CHUNK + 1, order, width), u.dtype)
        by_step = np.zeros((4, CHUNK, width), u.dtype)
        us, raws, deltas, xs = by_step[0], by_step[1], by_step[2], by_step[3]
        rows = np.zeros((8, width), u.dtype)
        gy, gx, gdelta, gate = rows[0], rows[1], rows[2], rows[3]
        gD, gbias, skip, shift = rows[4], rows[5], rows[6], rows[7]
        for item in range(first, last):
            block, b = divmod(item, u.shape[0])
            start, stop = block * width, min(block * width + width, channels)
            w = stop - start

            # The block's parameters; what lies beyond its channels is zero.
            by_state[:] = 0
            by_step[:] = 0
            rows[:] = 0
            copy(D[start:stop], skip)
            copy(bias[start:stop], shift)
            for n in range(order):
                copy(A_ND[n, start:stop], A[n])
            for chunk in range((length - 1) // CHUNK, -1, -1):
                begin = chunk * CHUNK
                count = min(CHUNK, length - begin)

                # Forward once more, from the state that was kept before the chunk.
                h[0] = 0
                if chunk > 0:
                    for n in range(order):
                        copy(states[b, chunk - 1, n, start:stop], h[0, n])
                for k in range(count):
                    t = length - 1 - begin - k if reverse else begin + k
                    u_t, raw_t, delta_t, x_t = us[k], raws[k], deltas[k], xs[k]
                    copy(u[b, t, start:stop], u_t)
                    copy(delta[b, t, start:stop], raw_t)
                    _step_size(u_t, raw_t, delta_t, x_t, shift, soft, width, real)
                    for n in range(order):
                        before, after, a_n, A_n, B_n = h[k, n], h[k + 1, n], a[k, n], A[n], B[b, t, n]
                        for d in range(width):
                            a_n[d] = exp(delta_t[d] * A_n[d])
                            after[d] = a_n[d] * before[d] + x_t[d] * B_n

                # Backward through the chunk, step by step: the gate,
                for k in range(count - 1, -1, -1):
                    t = length - 1 - begin - k if reverse else begin + k
                    copy(grad[b, t, start:stop], gy)
                    if z.size:
                        copy(z[b, t, start:stop], gate)
                        copy(y[b, t, start:stop], gx)
                        _gate_back(gx, gy, gate, width, real)
                        copy(gx[:w], grad_z[b, t, start:stop])

                    # the recurrence of each state,
                    u_t, raw_t, delta_t, x_t = us[k], raws[k], deltas[k], xs[k]
                    gx[:] = 0
                    gdelta[:] = 0
                    for n in range(order):
                        before, after, a_n, A_n, g_n, gA_n = h[k, n], h[k + 1, n], a[k, n], A[n], g[n], gA[n]
                        B_n, C_n, gB_n, gC_n = B[b, t, n], C[b, t, n], real(0), real(0)
                        for d in range(width):  # three loops: LLVM gives up where one has too many rows to tell apart
                            gC_n += after[d] * gy[d]
                            g_n[d] += C_n * gy[d]
                            gB_n += g_n[d] * x_t[d]
                            gx[d] += g_n[d] * B_n
                        for d in range(width):
                            g_n[d] *= a_n[d]
                            a_n[d] = g_n[d] * before[d]  # the gradient of delta A from here on
                        for d in range(width):
                            gA_n[d] += a_n[d] * delta_t[d]
                            gdelta[d] += a_n[d] * A_n[d]
                        grad_B[block, b, t, n], grad_C[block, b, t, n] = gB_n, gC_n

                    # and what it took in.
                    _token_back(u_t, raw_t, delta_t, gy, gx, gdelta, gD, gbias, skip, soft, width, real)
                    copy(gx[:w], grad_u[b, t, start:stop])
                    copy(gdelta[:w], grad_delta[b, t, start:stop])

            # Gradients of the parameters, over all steps.
            for n in range(order):
                copy(gA[n, :w], grad_A[b, n, start:stop])
            copy(gD[:w], grad_D[b, start:stop])
            copy(gbias[:w], grad_bias[b, start:stop])

    return compiled(forward, real), compiled(backward, real)


@inner
def _step_size(u, raw, delta, x, shift, soft, width, real):
    """Of one token; `raw` becomes delta before softplus."""
    for d in range(width):
        raw[d] += shift[d]
    if soft:
        for d in range(width):
            delta[d] = softplus(raw[d], real)
    else:
        for d in range(width):
            delta[d] = raw[d]
    for d in range(width):
        x[d] = delta[d] * u[d]


@inner
def _gate_back(y, gy, gate, width, real):
    """Where y silu(gate) was the result: `y` becomes the gradient of the gate, `gy` that of y."""
    for d in range(width):
        s = sigmoid(gate[d], real)
        y[d] *= gy[d] * s * (real(1) + gate[d] * (real(1) - s))
        gy[d] *= gate[d] * s


@inner
def _token_back(u, raw, delta, gy, gx, gdelta, gD, gbias, skip, soft, width, real):
    """From x = delta u to u and to delta before softplus: `gx` becomes the gradient of u."""
    for d in range(width):
        gD[d] += gy[d] * u[d]
        gdelta[d] += gx[d] * u[d]
    if soft:
        for d in range(width):
            gdelta[d] *= sigmoid(raw[d], real)
    for d in range(width):
        gbias[d] += gdelta[d]
        gx[d] = gx[d] * delta[d] + gy[d] * skip[d]
