"""Every mixer written out token by token for one sequence, from weights by name: no module of the package.

Shapes: T tokens along the scan, D width, H heads, E channels of a head; a state has E rows for keys, one per channel.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def rms(x, weight, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def gla(w, x_TD, heads, steps=None):
    """S_t = diag(a_t) S_{t-1} + k_t v_t^T, and a_t to the power of `steps`."""
    q, k, v, g = (linear(w, f"{name}_proj", x_TD).unflatten(1, (heads, -1)) for name in "qkvg")
    decay = torch.sigmoid(linear(w, "gk_proj.1", linear(w, "gk_proj.0", x_TD))).unflatten(1, (heads, -1)) ** (1 / 16)
    outputs = []
    for head in range(heads):
        state = torch.zeros(q.shape[2], v.shape[2], dtype=x_TD.dtype)
        for t in range(len(x_TD)):
            a = decay[t, head] ** (1 if steps is None else steps[t])
            state = a[:, None] * state + torch.outer(k[t, head], v[t, head])
            y = q[t, head] @ state / math.sqrt(q.shape[2])
            outputs.append(rms(y, w["g_norm_swish_gate.weight"], 1e-6) * F.silu(g[t, head]))
    return linear(w, "o_proj", torch.stack(outputs).unflatten(0, (heads, -1)).transpose(0, 1).flatten(1))


MIXERS = {"gla": gla}
