"""Every mixer written out token by token for one sequence, from weights by name: no module of the package.

Shapes: T tokens along the scan, D width, H heads, E channels of a head; a state has E rows for keys, one per channel.
"""

from __future__ import annotations

import math
from collections import defaultdict

import torch
import torch.nn.functional as F

ONES = defaultdict(lambda: 1)  # steps of a scan that skips no token


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def rms(x, weight, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def gla(w, x_TD, heads, steps=ONES):
    """S_t = diag(a_t) S_{t-1} + k_t v_t^T, and a_t to the power of `steps`."""
    q, k, v, g = (linear(w, f"{name}_proj", x_TD).unflatten(1, (heads, -1)) for name in "qkvg")
    decay = torch.sigmoid(linear(w, "gk_proj.1", linear(w, "gk_proj.0", x_TD))).unflatten(1, (heads, -1)) ** (1 / 16)
    outputs = []
    for head in range(heads):
        state = torch.zeros(q.shape[2], v.shape[2], dtype=x_TD.dtype)
        for t in range(len(x_TD)):
            a = decay[t, head] ** steps[t]
            state = a[:, None] * state + torch.outer(k[t, head], v[t, head])
            y = q[t, head] @ state / math.sqrt(q.shape[2])
            outputs.append(rms(y, w["g_norm_swish_gate.weight"], 1e-6) * F.silu(g[t, head]))
    return linear(w, "o_proj", torch.stack(outputs).unflatten(0, (heads, -1)).transpose(0, 1).flatten(1))


def convolved(w, name, x):
    """A causal convolution of each channel over four tokens, and silu."""
    padded = torch.cat([x.new_zeros(3, x.shape[1]), x])
    taps = w[f"{name}.weight"][:, 0]
    rows = [(padded[t : t + 4].T * taps).sum(1) + w.get(f"{name}.bias", 0) for t in range(len(x))]
    return F.silu(torch.stack(rows))


def unit(x):
    return x / x.square().sum(-1, keepdim=True).sqrt()


def gated_delta(w, x_TD, heads, steps=ONES):
    """S_t = a_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T."""
    q, k, v = (
        convolved(w, f"{name}_conv1d", linear(w, f"{name}_proj", x_TD)).unflatten(1, (heads, -1)) for name in "qkv"
    )
    beta = torch.sigmoid(linear(w, "b_proj", x_TD))
    decay = torch.exp(-w["A_log"].exp() * F.softplus(linear(w, "a_proj", x_TD) + w["dt_bias"]))
    gate = F.silu(linear(w, "g_proj", x_TD)).unflatten(1, (heads, -1))
    outputs = []
    for head in range(heads):
        state = torch.zeros(k.shape[2], v.shape[2], dtype=x_TD.dtype)
        for t in range(len(x_TD)):
            key = unit(k[t, head])
            erase = torch.eye(len(key), dtype=x_TD.dtype) - beta[t, head] * torch.outer(key, key)
            a = decay[t, head] ** steps[t]
            state = a * erase @ state + beta[t, head] * torch.outer(key, v[t, head])
            y = unit(q[t, head]) @ state / math.sqrt(len(key))
            outputs.append(rms(y, w["o_norm.weight"], 1e-5) * gate[t, head])
    return linear(w, "o_proj", torch.stack(outputs).unflatten(0, (heads, -1)).transpose(0, 1).flatten(1))


def mamba2(w, x_TD, heads=None, steps=ONES):
    """S_t = e^{dt A} S_{t-1} + dt B x^T in every head, in one direction or in both."""
    heads = len(w["A_log"])
    inner = len(w["norm.weight"])
    z, xBC, dt = linear(w, "in_proj", x_TD).split([inner, len(w["conv1d.bias"]), heads], dim=1)
    y = mamba2_scan(w, xBC, dt, steps, "")
    if "A_log_b" in w:
        y = y + mamba2_scan(w, xBC.flip(0), dt.flip(0), steps, "_b").flip(0)
    return linear(w, "out_proj", rms(y * F.silu(z), w["norm.weight"], 1e-5))


def mamba2_scan(w, xBC, dt, steps, suffix):
    heads, inner = dt.shape[1], len(w["norm.weight"])
    size = (xBC.shape[1] - inner) // 2
    x, B, C = convolved(w, f"conv1d{suffix}", xBC).split([inner, size, size], dim=1)
    x = x.unflatten(1, (heads, -1))
    dt = F.softplus(dt + w[f"dt_bias{suffix}"])
    outputs = []
    for head in range(heads):
        state = torch.zeros(size, x.shape[2], dtype=x.dtype)
        for t in range(len(x)):
            a = torch.exp(-dt[t, head] * w[f"A_log{suffix}"][head].exp()) ** steps[t]
            state = a * state + torch.outer(B[t], dt[t, head] * x[t, head])
            outputs.append(C[t] @ state + w[f"D{suffix}"][head] * x[t, head])
    return torch.stack(outputs).unflatten(0, (heads, -1)).transpose(0, 1).flatten(1)


def shifted(w, x_TD, name):
    before = torch.cat([x_TD.new_zeros(1, x_TD.shape[1]), x_TD[:-1]])
    return x_TD + (before - x_TD) * w[f"x_{name}"][0]


def low_rank(w, name, x, activation=lambda x: x):
    return linear(w, f"{name}_lora.lora.2", activation(linear(w, f"{name}_lora.lora.0", x)))


def values(w, x_TD):
    """What RWKV-7's later blocks read of the first block that a token passes."""
    return linear(w, "v_proj", shifted(w, x_TD, "v"))


def rwkv7(w, x_TD, heads, first, steps=ONES):
    """S_t = (diag(w_t) - kk_t a_t kk_t^T) S_{t-1} + k_t v_t^T, with S of a row per channel of a key.

    Of `steps`, all but the last let S decay and do nothing else.
    """
    r, k = (linear(w, f"{name}_proj", shifted(w, x_TD, name)) for name in "rk")
    v = values(w, x_TD)
    if "v_lora.lora.0.weight" in w:
        v = v + (first - v) * torch.sigmoid(low_rank(w, "v", shifted(w, x_TD, "v")))
    a = torch.sigmoid(low_rank(w, "a", shifted(w, x_TD, "a")))
    g = low_rank(w, "g", shifted(w, x_TD, "g"), torch.sigmoid)
    decay = torch.exp(-math.exp(-0.5) * torch.sigmoid(low_rank(w, "w", shifted(w, x_TD, "w"), torch.tanh)))
    kk, k = k * w["k_k"], k * (1 + (a - 1) * w["k_a"])
    r, k, v, a, decay, kk = (part.unflatten(1, (heads, -1)) for part in (r, k, v, a, decay, kk))
    outputs = []
    for head in range(heads):
        state = torch.zeros(k.shape[2], k.shape[2], dtype=x_TD.dtype)
        for t in range(len(x_TD)):
            key = unit(kk[t, head])
            for _ in range(int(steps[t]) - 1):
                state = torch.diag(decay[t, head]) @ state
            kept = torch.diag(decay[t, head])
            state = (kept - torch.outer(key * a[t, head], key)) @ state + torch.outer(k[t, head], v[t, head])
            y = r[t, head] @ state
            centred = y - y.mean()
            y = centred / (centred.square().mean() + len(y) * 1e-5).sqrt()
            at = slice(head * len(y), (head + 1) * len(y))
            y = y * w["g_norm.weight"][at] + w["g_norm.bias"][at]
            outputs.append(y + (r[t, head] * k[t, head] * w["r_k"][head]).sum() * v[t, head])
    return linear(w, "o_proj", torch.stack(outputs).unflatten(0, (heads, -1)).transpose(0, 1).flatten(1) * g)


def mamba(w, x_TD, heads=None, steps=ONES):
    """Mamba's mixer; in both directions where there are weights of a second one."""
    x, z = linear(w, "in_proj", x_TD).chunk(2, dim=1)
    y = mamba_scan(w, x, z, "")
    if "A_b_log" in w:
        y = y + mamba_scan(w, x.flip(0), z.flip(0), "_b").flip(0)
    return linear(w, "out_proj", y)


def mamba_scan(w, x, z, suffix):
    """Token by token and state by state, as the papers write it."""
    A_log, D = w[f"A{suffix}_log"], w[f"D{suffix}"]
    state, outputs = torch.zeros_like(A_log), []
    for u, gate in zip(convolved(w, f"conv1d{suffix}", x), F.silu(z), strict=True):
        delta, B, C = linear(w, f"x_proj{suffix}", u).split([w[f"dt_proj{suffix}.weight"].shape[1], 16, 16])
        delta = F.softplus(linear(w, f"dt_proj{suffix}", delta))[:, None]
        state = (-delta * A_log.exp()).exp() * state + delta * u[:, None] * B
        outputs.append((state @ C + D * u) * gate)
    return torch.stack(outputs)


def attention(w, x_TD, heads, steps=ONES):
    q, k, v = linear(w, "qkv", x_TD).unflatten(1, (3, heads, -1)).unbind(1)
    outputs = [
        torch.softmax(q[:, head] @ k[:, head].T / math.sqrt(q.shape[2]), 1) @ v[:, head] for head in range(heads)
    ]
    return linear(w, "proj", torch.cat(outputs, 1))


def identity(w, x_TD, heads, steps=ONES):
    return x_TD


MIXERS = {
    "attention": attention,
    "identity": identity,
    "gla": gla,
    "mamba": mamba,
    "gated_delta": gated_delta,
    "mamba2": mamba2,
    "rwkv7": rwkv7,
}
