"""Text-conditioned networks written out for one sample, from weights by name: no module and no gather of the package.

Shapes: N image tokens, T tokens of a block, M of the text, D width, E channels of a head. `seen(block)` are the places
of the tokens that a block processes in the whole sequence.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tests.backbones.networks import rms_norm
from tread_bench.model.ops.patching import sincos_positions, sinusoids


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def layer_norm(x, eps, w=None, name=""):
    centred = x - x.mean(-1, keepdim=True)
    normed = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    return normed if w is None else normed * w[f"{name}.weight"] + w[f"{name}.bias"]


def attend(q_TD, k_MD, v_MD, heads):
    """softmax(Q K^T / sqrt(E)) V for every head, (T, D)."""
    q, k, v = (x.unflatten(1, (heads, -1)) for x in (q_TD, k_MD, v_MD))
    weights = torch.einsum("the,mhe->htm", q, k).div(math.sqrt(q.shape[2])).softmax(-1)
    return torch.einsum("htm,mhe->the", weights, v).flatten(1)


def self_attention(w, name, x_TD, heads):
    return linear(w, f"{name}.proj", attend(*linear(w, f"{name}.qkv", x_TD).chunk(3, dim=1), heads))


def patches(w, name, spec, x_CHW):
    """Patches row by row, embedded, (N, D)."""
    cut = x_CHW.unfold(1, spec.patch, spec.patch).unfold(2, spec.patch, spec.patch)  # (C, rows, columns, p, p)
    flat = cut.permute(1, 2, 0, 3, 4).flatten(2).flatten(0, 1)
    return flat @ w[f"{name}.proj.weight"].flatten(1).T + w[f"{name}.proj.bias"]


def image(spec, tokens):
    """(N, p p C), channels last in a patch, to (C, H, W)."""
    rows, columns = spec.grid
    cut = tokens.view(rows, columns, spec.patch, spec.patch, -1).permute(4, 0, 2, 1, 3)
    return cut.reshape(-1, rows * spec.patch, columns * spec.patch)


def written(stream, places, values):
    stream = stream.clone()
    stream[places] = values
    return stream


def time_mlp(w, name, t):
    return linear(w, f"{name}.mlp.2", F.silu(linear(w, f"{name}.mlp.0", sinusoids(t[None], 256)[0].double())))


def uvit(w, spec, x, t, text, seen):
    tokens = torch.cat([linear(w, "context_embed", text), patches(w, "patch_embed", spec, x)])
    stream = torch.cat([sinusoids(1000 * t[None], spec.hidden).double(), tokens]) + w["pos_embed"][0]
    half = spec.depth // 2
    names = [f"in_blocks.{k}" for k in range(half)] + ["mid_block"] + [f"out_blocks.{k}" for k in range(half)]
    skips = []
    for number, name in enumerate(names):
        at = seen(number)
        part = stream[at]
        if number > half:
            part = linear(w, f"{name}.skip_linear", torch.cat([part, skips.pop()[at]], dim=1))
        part = part + self_attention(w, f"{name}.attn", layer_norm(part, 1e-5, w, f"{name}.norm1"), spec.heads)
        hidden = linear(w, f"{name}.mlp.fc1", layer_norm(part, 1e-5, w, f"{name}.norm2"))
        part = part + linear(w, f"{name}.mlp.fc2", hidden / 2 * (1 + torch.erf(hidden / math.sqrt(2))))
        stream = written(stream, at, part)
        if number < half:
            skips.append(stream)
    out = linear(w, "decoder_pred", layer_norm(stream, 1e-5, w, "norm")[-spec.num_tokens :])
    return F.conv2d(image(spec, out)[None], w["final_layer.weight"], w["final_layer.bias"], padding=1)[0]


def mixed(w, name, x_TD):
    """Mamba's mixer; in both directions where there are weights of a second one."""
    x, z = linear(w, f"{name}.in_proj", x_TD).chunk(2, dim=1)
    y = scanned(w, name, x, z, "")
    if f"{name}.A_b_log" in w:
        y = y + scanned(w, name, x.flip(0), z.flip(0), "_b").flip(0)
    return linear(w, f"{name}.out_proj", y)


def scanned(w, name, x, z, suffix):
    """Token by token and state by state, as the papers write it."""
    padded = torch.cat([x.new_zeros(3, x.shape[1]), x])
    A_log, D, conv = (w[f"{name}.{part}"] for part in (f"A{suffix}_log", f"D{suffix}", f"conv1d{suffix}.weight"))
    state, outputs = torch.zeros_like(A_log), []
    rank = w[f"{name}.dt_proj{suffix}.weight"].shape[1]
    for k in range(len(x)):
        u = F.silu((padded[k : k + 4].T * conv[:, 0]).sum(1) + w[f"{name}.conv1d{suffix}.bias"])
        delta, B, C = linear(w, f"{name}.x_proj{suffix}", u).split([rank, 16, 16])
        delta = F.softplus(linear(w, f"{name}.dt_proj{suffix}", delta))[:, None]
        state = (-delta * A_log.exp()).exp() * state + delta * u[:, None] * B
        outputs.append((state @ C + D * u) * F.silu(z[k]))
    return torch.stack(outputs)


def zigma(w, spec, x, t, text, seen):
    rows, columns = spec.grid
    raster = [[row * columns + column for column in range(columns)] for row in range(rows)]
    context = linear(w, "y_embedder", text)
    c = F.silu(time_mlp(w, "t_embedder", 1000 * t) + context.mean(0))
    stream = patches(w, "x_embedder", spec, x) + w["pos_embed"][0]
    residual = torch.zeros_like(stream)
    for number in range(spec.depth):
        name = f"blocks.{number}"
        at = [place for place in snake(raster, number % 8) if place in seen(number)]
        residual = written(residual, at, residual[at] + stream[at])
        normed = rms_norm(residual[at], w[f"{name}.norm.weight"])
        shift, scale, gate, *of_text = linear(w, f"{name}.adaLN_modulation.1", c).chunk(6)
        part = normed + gate * mixed(w, f"{name}.mixer", normed * (1 + scale) + shift)
        shift, scale, gate = of_text
        asked = linear(w, f"{name}.msa.to_q", layer_norm(part, 1e-6) * (1 + scale) + shift)
        read = attend(asked, linear(w, f"{name}.msa.to_k", context), linear(w, f"{name}.msa.to_v", context), 8)
        stream = written(stream, at, part + gate * linear(w, f"{name}.msa.to_out.0", read))
    out = layer_norm(rms_norm(stream + residual, w["norm_f.weight"]), 1e-6)
    return image(spec, linear(w, "final_layer.linear", out))


def snake(raster, path):
    """One of ZigMa's eight paths: from a corner, by rows or by columns, turning at every end."""
    corner, by_columns = divmod(path, 2)
    cells = [row[::-1] for row in raster] if corner % 2 else raster
    cells = cells[::-1] if corner // 2 else cells
    cells = [list(column) for column in zip(*cells, strict=True)] if by_columns else cells
    return [cell for number, line in enumerate(cells) for cell in (line[::-1] if number % 2 else line)]


def dit(w, spec, x, t, text, seen):
    """The attention to the text is torch's own."""
    c = F.silu(time_mlp(w, "t_embedder", t))
    context = linear(w, "y_embedder", text)
    stream = patches(w, "x_embedder", spec, x) + sincos_positions(spec.hidden, spec.grid)
    for number in range(spec.depth):
        name, at = f"blocks.{number}", seen(number)
        part = stream[at]
        shift, scale, gate, *of_mlp = linear(w, f"{name}.adaLN_modulation.1", c).chunk(6)
        asked = layer_norm(part, 1e-6) * (1 + scale) + shift
        part = part + gate * self_attention(w, f"{name}.attn", asked, spec.heads)
        part = part + torch_attention(w, f"{name}.cross_attn", part, context, spec.heads)
        shift, scale, gate = of_mlp
        hidden = linear(w, f"{name}.mlp.fc1", layer_norm(part, 1e-6) * (1 + scale) + shift)
        part = part + gate * linear(w, f"{name}.mlp.fc2", F.gelu(hidden, approximate="tanh"))
        stream = written(stream, at, part)
    shift, scale = linear(w, "final_layer.adaLN_modulation.1", c).chunk(2)
    out = linear(w, "final_layer.linear", layer_norm(stream, 1e-6) * (1 + scale) + shift)
    return image(spec, out)[: spec.channels]


def mmdit(w, spec, x, t, text, seen):
    """SD3's figure 2b: two streams, and one attention over both; behind the last block's nothing reads the text."""
    c = F.silu(time_mlp(w, "t_embedder", t))
    words = linear(w, "context_embedder", text)
    stream = patches(w, "x_embedder", spec, x) + sincos_positions(spec.hidden, spec.grid)
    for number in range(spec.depth):
        name, at, is_last = f"joint_blocks.{number}", seen(number), number == spec.depth - 1
        shares, parts = [], {"context_block": words, "x_block": stream[at]}
        for of, part in parts.items():
            shift, scale, *gates = linear(w, f"{name}.{of}.adaLN_modulation.1", c).chunk(
                2 if is_last and of[0] == "c" else 6
            )
            q, k, v = linear(w, f"{name}.{of}.attn.qkv", layer_norm(part, 1e-6) * (1 + scale) + shift).chunk(3, dim=1)
            shares.append((q, k, v, gates))
        keys, values = (torch.cat([share[which] for share in shares]) for which in (1, 2))
        for (of, part), (q, _, _, gates) in zip(list(parts.items()), shares, strict=True):
            if gates:
                gate, shift, scale, gate_mlp = gates
                part = part + gate * linear(w, f"{name}.{of}.attn.proj", attend(q, keys, values, spec.heads))
                hidden = linear(w, f"{name}.{of}.mlp.fc1", layer_norm(part, 1e-6) * (1 + scale) + shift)
                parts[of] = part + gate_mlp * linear(w, f"{name}.{of}.mlp.fc2", F.gelu(hidden, approximate="tanh"))
        words, stream = parts["context_block"], written(stream, at, parts["x_block"])
    shift, scale = linear(w, "final_layer.adaLN_modulation.1", c).chunk(2)
    return image(spec, linear(w, "final_layer.linear", layer_norm(stream, 1e-6) * (1 + scale) + shift))


def torch_attention(w, name, queries_TD, text_MD, heads):
    biases = torch.cat([w[f"{name}.to_{part}.bias"] for part in "qkv"])
    attended, _ = F.multi_head_attention_forward(
        *(queries_TD, text_MD, text_MD, queries_TD.shape[1], heads, None, biases, None, None, False, 0.0),
        *(w[f"{name}.to_out.0.weight"], w[f"{name}.to_out.0.bias"]),
        need_weights=False,
        use_separate_proj_weight=True,
        **{f"{part}_proj_weight": w[f"{name}.to_{part}.weight"] for part in "qkv"},
    )
    return attended


RESTATED = {"DiT": dit, "MMDiT": mmdit, "U-ViT": uvit, "ZigMa": zigma}
