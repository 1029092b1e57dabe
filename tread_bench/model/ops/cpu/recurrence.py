"""Gated linear recurrences with a matrix as their state (`ops.recurrence`), token by token.

An item is a head of a sample. S is a state, whose rows are the channels of a key, each filled up with zeros to whole
vectors; e is the decay of a row, u what a delta rule reads from the state, g_x the gradient of x, and G that of S.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

from functools import cache

import numpy as np

from tread_bench.model.ops.cpu.compiling import VECTOR, Kernel, compiled, inner
from tread_bench.model.ops.cpu.elementary import copy, exp

CHUNK = 16  # tokens from one kept state to the next


@cache
def recurrence_kernels(real: type) -> tuple[Kernel, Kernel]:
    """Forward and backward pass over the items first .. last - 1, in float32 or float64 (`real`)."""

    def forward(first, last, q, k, v, g, a, b, y):
        heads, length, keys, values = v.shape[1], v.shape[2], k.shape[3], v.shape[3]
        width = VECTOR * -(-values // VECTOR)
        S, rows = np.empty((keys, width), v.dtype), np.zeros((3, width), v.dtype)
        v_t, u_t, y_t = rows[0], rows[1], rows[2]
        for item in range(first, last):
            n, h = divmod(item, heads)
            shared = h if k.shape[1] > 1 else 0
            S[:] = 0
            for t in range(length):
                copy(v[n, h, t], v_t)
                _step(S, S, g[n, h, t], k[n, shared, t], v_t, a, b, (n, h, t), u_t, width)
                y_t[:] = 0
                for i in range(keys):
                    q_i, S_i = q[n, shared, t, i], S[i]
                    for d in range(width):
                        y_t[d] += q_i * S_i[d]
                copy(y_t[:values], y[n, h, t])

    def backward(first, last, grad, q, k, v, g, a, b, g_q, g_k, g_v, g_g, g_a, g_b):
        heads, length, keys, values = v.shape[1], v.shape[2], k.shape[3], v.shape[3]
        width = VECTOR * -(-values // VECTOR)
        decays, chunks = g.shape[3], -(-length // CHUNK)
        kept, S = np.empty((chunks, keys, width), v.dtype), np.empty((CHUNK + 1, keys, width), v.dtype)
        G, rows = np.empty((keys, width), v.dtype), np.zeros((3, width), v.dtype)
        by_token = np.zeros((2, CHUNK, width), v.dtype)
        us, vs, g_y, g_v_t, g_u_t = by_token[0], by_token[1], rows[0], rows[1], rows[2]
        for item in range(first, last):
            n, h = divmod(item, heads)
            shared = h if k.shape[1] > 1 else 0

            # Forward once more, to the states before each chunk.
            S[0] = 0
            for t in range((chunks - 1) * CHUNK):
                if t % CHUNK == 0:
                    kept[t // CHUNK] = S[0]
                copy(v[n, h, t], vs[0])
                _step(S[0], S[0], g[n, h, t], k[n, shared, t], vs[0], a, b, (n, h, t), us[0], width)
            kept[chunks - 1] = S[0]

            G[:] = 0
            for chunk in range(chunks - 1, -1, -1):
                begin = chunk * CHUNK
                count = min(CHUNK, length - begin)

                # All states of the chunk.
                S[0] = kept[chunk]
                for j in range(count):
                    t = begin + j
                    copy(v[n, h, t], vs[j])
                    _step(S[j], S[j + 1], g[n, h, t], k[n, shared, t], vs[j], a, b, (n, h, t), us[j], width)

                # Backward through it.
                for j in range(count - 1, -1, -1):
                    t = begin + j
                    v_t, u_t = vs[j], us[j]
                    copy(grad[n, h, t], g_y)
                    g_v_t[:] = 0
                    g_u_t[:] = 0
                    for i in range(keys):
                        S_i, G_i, q_i, k_i = S[j + 1, i], G[i], q[n, shared, t, i], k[n, shared, t, i]
                        to_q, to_k = real(0), real(0)
                        for d in range(width):
                            to_q += S_i[d] * g_y[d]
                            G_i[d] += q_i * g_y[d]
                            to_k += G_i[d] * v_t[d]
                            g_v_t[d] += k_i * G_i[d]
                        g_q[n, h, t, i], g_k[n, h, t, i] = to_q, to_k
                    if a.size:
                        for i in range(keys):
                            G_i, b_i, to_b = G[i], b[n, h, t, i], real(0)
                            for d in range(width):
                                to_b += G_i[d] * u_t[d]
                                g_u_t[d] += b_i * G_i[d]
                            g_b[n, h, t, i] = to_b
                    e = exp(g[n, h, t, 0])
                    for i in range(keys):
                        if decays > 1:
                            e = exp(g[n, h, t, i])
                        S_i, G_i, to_g = S[j, i], G[i], real(0)
                        for d in range(width):
                            G_i[d] *= e
                            to_g += G_i[d] * S_i[d]
                        g_g[n, h, t, i] = to_g
                    if a.size:
                        for i in range(keys):
                            S_i, G_i, a_i, to_a = S[j, i], G[i], a[n, h, t, i], real(0)
                            for d in range(width):
                                G_i[d] += a_i * g_u_t[d]
                                to_a += S_i[d] * g_u_t[d]
                            g_a[n, h, t, i] = to_a
                    copy(g_v_t[:values], g_v[n, h, t])

    return compiled(forward, real), compiled(backward, real)


@inner
def _step(before, after, g_t, k_t, v_t, a, b, at, u_t, width):
    """One token, `at` its place: what it reads from the state, the state's decay, and what it writes."""
    if a.size:
        u_t[:] = 0
        for i in range(k_t.size):
            a_i, S_i = a[at][i], before[i]
            for d in range(width):
                u_t[d] += a_i * S_i[d]
    e = exp(g_t[0])
    for i in range(k_t.size):
        if g_t.size > 1:
            e = exp(g_t[i])
        k_i, S_i, after_i = k_t[i], before[i], after[i]
        if a.size:
            b_i = b[at][i]
            for d in range(width):
                after_i[d] = e * S_i[d] + k_i * v_t[d] + b_i * u_t[d]
        else:
            for d in range(width):
                after_i[d] = e * S_i[d] + k_i * v_t[d]
