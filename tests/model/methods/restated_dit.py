"""DiT's parts written out for one sample in float64, from weights by name, for restatements of methods."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.backbones.restated import image, layer_norm, linear, patches, self_attention, time_mlp
from tread_bench.model.ops.patching import sincos_positions


def weights_of(network):
    """The network's weights by name, in float64, with gradients."""
    return {name: p.detach().double().requires_grad_() for name, p in network.named_parameters()}


def condition(w, t, y):
    return time_mlp(w, "backbone.t_embedder", t) + w["backbone.y_embedder.embedding_table.weight"][y]


def embedded(w, spec, x):
    """The tokens before the first block, (N, D)."""
    return patches(w, "backbone.x_embedder", spec, x) + sincos_positions(spec.hidden, spec.grid).double()


def modulation(w, name, c, parts):
    return linear(w, name, F.silu(c)).chunk(parts)


def block(w, name, x, c, heads, adaln="adaLN_modulation.1"):
    """An adaLN-Zero block."""
    shift1, scale1, gate1, shift2, scale2, gate2 = modulation(w, f"{name}.{adaln}", c, 6)
    x = x + gate1 * self_attention(w, f"{name}.attn", layer_norm(x, 1e-6) * (1 + scale1) + shift1, heads)
    hidden = F.gelu(linear(w, f"{name}.mlp.fc1", layer_norm(x, 1e-6) * (1 + scale2) + shift2), approximate="tanh")
    return x + gate2 * linear(w, f"{name}.mlp.fc2", hidden)


def head(w, spec, x, c):
    """The image (C, H, W) of all tokens."""
    shift, scale = modulation(w, "backbone.final_layer.adaLN_modulation.1", c, 2)
    out = linear(w, "backbone.final_layer.linear", layer_norm(x, 1e-6) * (1 + scale) + shift)
    return image(spec, out)[: spec.channels]


def same_gradients(network, w, tolerance=1e-9):
    """Whether the network's gradients are those of the restatement's weights, relative to the largest."""
    for name, p in network.named_parameters():
        if not p.requires_grad:
            continue
        expected = torch.zeros_like(w[name]) if w[name].grad is None else w[name].grad
        found = torch.zeros_like(p) if p.grad is None else p.grad
        assert (found - expected).abs().max() <= tolerance * max(1.0, float(expected.abs().max())), name
