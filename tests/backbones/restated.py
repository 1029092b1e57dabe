"""Every network written out for one sample, from weights by name: no module and no gather of the package.

Shapes: N image tokens, T tokens of a block, M of the text, D width, E channels of a head. `seen(block)` are the places
of the tokens that a block processes in the whole sequence, `keep(number, rate)` is the factor of a drop path.
"""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F

from tests.backbones import mixing
from tests.backbones.mixing import linear, rms
from tests.model.ops.wkv_reference import bi_wkv_reference
from tread_bench.model.ops.patching import sincos_positions, sinusoids


def layer_norm(x, eps, w=None, name=""):
    centred = x - x.mean(-1, keepdim=True)
    normed = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    return normed if w is None else normed * w[f"{name}.weight"] + w[f"{name}.bias"]


def layer_norm_of(x, k):
    return layer_norm(x, 1e-6)


def rms_of(w, name, x, k):
    return rms(x, w[f"{name}{k}.weight"], 1e-6)


def attend(q_TD, k_MD, v_MD, heads):
    """softmax(Q K^T / sqrt(E)) V for every head, (T, D)."""
    q, k, v = (x.unflatten(1, (heads, -1)) for x in (q_TD, k_MD, v_MD))
    weights = torch.einsum("the,mhe->htm", q, k).div(math.sqrt(q.shape[2])).softmax(-1)
    return torch.einsum("htm,mhe->the", weights, v).flatten(1)


def self_attention(w, name, x_TD, heads):
    return linear(w, f"{name}.proj", attend(*linear(w, f"{name}.qkv", x_TD).chunk(3, dim=1), heads))


def linear_attention(w, name, x_TD, heads):
    """The values, weighted by relu(q) relu(k)^T over the sum of these weights."""
    q, k, v = (part.unflatten(1, (heads, -1)) for part in linear(w, f"{name}.qkv", x_TD).chunk(3, dim=1))
    weights = torch.einsum("the,mhe->htm", q.relu(), k.relu())
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-15)
    return linear(w, f"{name}.proj", torch.einsum("htm,mhe->the", weights, v).flatten(1))


def cross_attention(w, name, x_TD, context_MD, heads):
    q, k, v = (linear(w, f"{name}.to_{part}", of) for part, of in (("q", x_TD), ("k", context_MD), ("v", context_MD)))
    return linear(w, f"{name}.to_out.0", attend(q, k, v, heads))


def rotary_attention(w, name, x_TD, spec, places):
    """Queries and keys are turned by place on the grid, which turns nothing at place 0; normed first where JiT is."""
    q, k, v = linear(w, f"{name}.qkv", x_TD).chunk(3, dim=1)
    if f"{name}.q_norm.weight" in w:
        q, k = (
            rms(x.unflatten(1, (spec.heads, -1)), w[f"{name}.{which}_norm.weight"], 1e-6).flatten(1)
            for x, which in ((q, "q"), (k, "k"))
        )
    q, k = (turned(x, spec.heads, torch.tensor(places), spec.grid[1]) for x in (q, k))
    return linear(w, f"{name}.proj", attend(q, k, v, spec.heads))


def turned(x_TD, heads, places_T, columns):
    """RoPE: channel pairs as complex numbers, the first half of each head by row, the second by column."""
    pairs = torch.view_as_complex(x_TD.unflatten(1, (heads, -1, 2)).contiguous())
    quarter = pairs.shape[2] // 2
    frequencies = 10000 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
    at = places_T[:, None]
    angle = torch.cat([at // columns * frequencies, at % columns * frequencies], dim=1)[:, None]
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(1)


def gelu_mlp(w, name, x_TD):
    return linear(w, f"{name}.fc2", F.gelu(linear(w, f"{name}.fc1", x_TD), approximate="tanh"))


def swiglu(w, name, x_TD, names=("w12", "w3")):
    gate, value = linear(w, f"{name}.{names[0]}", x_TD).chunk(2, dim=1)
    return linear(w, f"{name}.{names[1]}", F.silu(gate) * value)


def adaln(w, name, c, x_TD, norm, mix, mlp, between=lambda x: x, drops=(1, 1)):
    """A block of DiT's kin: what mixes tokens, then an MLP, each normed, shifted, scaled and gated."""
    shift, scale, gate, *of_mlp = linear(w, f"{name}.adaLN_modulation.1", c).chunk(6)
    x_TD = between(x_TD + drops[0] * gate * mix(norm(x_TD, 1) * (1 + scale) + shift))
    shift, scale, gate = of_mlp
    return x_TD + drops[1] * gate * mlp(norm(x_TD, 2) * (1 + scale) + shift)


def final(w, spec, c, normed_ND):
    """The image behind the last layer, without a variance."""
    shift, scale = linear(w, "final_layer.adaLN_modulation.1", c).chunk(2)
    return image(spec, linear(w, "final_layer.linear", normed_ND * (1 + scale) + shift))[: spec.channels]


def cut(spec, x_CHW):
    """Patches row by row, (N, C p p)."""
    windows = x_CHW.unfold(1, spec.patch, spec.patch).unfold(2, spec.patch, spec.patch)  # (C, rows, columns, p, p)
    return windows.permute(1, 2, 0, 3, 4).flatten(2).flatten(0, 1)


def patches(w, name, spec, x_CHW):
    """Patches row by row, embedded, (N, D)."""
    return cut(spec, x_CHW) @ w[f"{name}.proj.weight"].flatten(1).T + w[f"{name}.proj.bias"]


def image(spec, tokens):
    """(N, p p C), channels last in a patch, to (C, H, W)."""
    rows, columns = spec.grid
    cells = tokens.view(rows, columns, spec.patch, spec.patch, -1).permute(4, 0, 2, 1, 3)
    return cells.reshape(-1, rows * spec.patch, columns * spec.patch)


def written(stream, places, values):
    stream = stream.clone()
    stream[places] = values
    return stream


def time_mlp(w, name, t):
    return linear(w, f"{name}.mlp.2", F.silu(linear(w, f"{name}.mlp.0", sinusoids(t[None], 256)[0].double())))


def label_row(w, y, name="y_embedder"):
    return w[f"{name}.embedding_table.weight"][y]


def of(w, prefix):
    return {name.removeprefix(prefix): value for name, value in w.items() if name.startswith(prefix)}


def mirrored(w, stream, depth, seen, layer):
    """Blocks of which the first half keep their output at full length, for the second half to read."""
    half = depth // 2
    names = [f"in_blocks.{k}" for k in range(half)] + ["mid_block"] + [f"out_blocks.{k}" for k in range(half)]
    skips = []
    for number, name in enumerate(names):
        at = seen(number)
        part = stream[at]
        if number > half:
            part = linear(w, f"{name}.skip_linear", torch.cat([part, skips.pop()[at]], dim=1))
        stream = written(stream, at, layer(number, name, part, at))
        if number < half:
            skips.append(stream)
    return stream


def uvit(w, spec, x, t, y, seen, keep):
    prefix = [sinusoids(1000 * t[None], spec.hidden).double()]
    if spec.context_tokens:
        prefix.append(linear(w, "context_embed", y))
    else:
        prefix.insert(0, w["label_emb.weight"][y][None])
    stream = torch.cat([*prefix, patches(w, "patch_embed", spec, x)]) + w["pos_embed"][0]

    def layer(number, name, part, at):
        part = part + self_attention(w, f"{name}.attn", layer_norm(part, 1e-5, w, f"{name}.norm1"), spec.heads)
        hidden = linear(w, f"{name}.mlp.fc1", layer_norm(part, 1e-5, w, f"{name}.norm2"))
        return part + linear(w, f"{name}.mlp.fc2", hidden / 2 * (1 + torch.erf(hidden / math.sqrt(2))))

    stream = mirrored(w, stream, spec.depth, seen, layer)
    out = linear(w, "decoder_pred", layer_norm(stream, 1e-5, w, "norm")[-spec.num_tokens :])
    return F.conv2d(image(spec, out)[None], w["final_layer.weight"], w["final_layer.bias"], padding=1)[0]


def dis(w, spec, x, t, y, seen, keep):
    """Two streams: the last block's output, and the sum of all before it."""
    time = linear(w, "time_embed.0", sinusoids(1000 * t[None], spec.hidden)[0].double())
    time, label = linear(w, "time_embed.2", F.silu(time)), label_row(w, y, "label_emb")
    hidden = torch.cat([torch.stack([label, time]), patches(w, "patch_embed", spec, x)]) + w["pos_embed"][0]
    residual = torch.zeros_like(hidden)
    rates = [0.0, *torch.linspace(0, spec.drop_path, spec.depth).tolist()]

    def layer(number, name, part, at):
        nonlocal residual
        residual = written(residual, at, residual[at] + keep(number, rates[number]) * part)
        mix = mixing.MIXERS[spec.mixer]
        return mix(of(w, f"{name}.mixer."), rms(residual[at], w[f"{name}.norm.weight"], 1e-5))

    hidden = mirrored(w, hidden, spec.depth, seen, layer)
    whole = rms(residual + keep(spec.depth, spec.drop_path) * hidden, w["norm_f.weight"], 1e-5)
    return final(w, spec, F.silu(label + time), layer_norm(whole, 1e-6)[2:])


def drwkv(w, spec, x, t, y, seen, keep):
    c = F.silu(time_mlp(w, "time_embed", 1000 * t) + label_row(w, y, "label_emb"))

    def layer(number, name, part, at):
        if number == 0:
            part = layer_norm(part, 1e-5, w, f"{name}.ln0")
        drops = [keep(2 * number + k, spec.drop_path * number / spec.depth) for k in (0, 1)]
        mixes = (partial(mix, of(w, f"{name}."), at=at, grid=spec.grid) for mix in (spatial_mix, channel_mix))
        return adaln(w, name, c, part, lambda z, k: layer_norm(z, 1e-5, w, f"{name}.ln{k}"), *mixes, drops=drops)

    stream = mirrored(w, patches(w, "patch_embed", spec, x) + w["pos_embed"][0], spec.depth, seen, layer)
    return final(w, spec, c, layer_norm(layer_norm(stream, 1e-5, w, "norm_f"), 1e-6))


def spatial_mix(w, x_TD, at, grid):
    k, v, r = (
        shared(x_TD, at, grid, w[f"att.spatial_mix_{name[0]}"][0]) @ w[f"att.{name}.weight"].T
        for name in ("key", "value", "receptance")
    )
    decay, first = (w[f"att.spatial_{name}"] / len(x_TD) for name in ("decay", "first"))
    return (bi_wkv_reference(decay, first, k[None], v[None])[0] * r.sigmoid()) @ w["att.output.weight"].T


def channel_mix(w, x_TD, at, grid):
    k, r = (
        shared(x_TD, at, grid, w[f"ffn.spatial_mix_{name[0]}"][0]) @ w[f"ffn.{name}.weight"].T
        for name in ("key", "receptance")
    )
    return k.clamp(min=0) ** 2 @ w["ffn.value.weight"].T * r.sigmoid()


def shared(x_TD, at, grid, share):
    """A share of each token, and the rest of its left, right, upper and lower neighbour, by quarters; zeros of none."""
    rows, columns = grid
    padded = x_TD.new_zeros(rows + 2, columns + 2, x_TD.shape[1])
    row, column = torch.tensor(at) // columns + 1, torch.tensor(at) % columns + 1
    padded[row, column] = x_TD
    sides = ((0, -1), (0, 1), (-1, 0), (1, 0))
    quarters = [padded[row + down, column + right].chunk(4, 1)[k] for k, (down, right) in enumerate(sides)]
    return share * x_TD + (1 - share) * torch.cat(quarters, dim=1)


def zigma(w, spec, x, t, y, seen, keep):
    time = time_mlp(w, "t_embedder", 1000 * t)
    stream = patches(w, "x_embedder", spec, x)
    if spec.context_tokens:
        context, stream = linear(w, "y_embedder", y), stream + w["pos_embed"][0]
        c = F.silu(time + context.mean(0))
    else:
        c = F.silu(time + label_row(w, y))
    residual = torch.zeros_like(stream)
    rates = [0.0, *torch.linspace(0, spec.drop_path, spec.depth).tolist()]
    for number in range(spec.depth):
        name, path = f"blocks.{number}", range(spec.num_tokens)
        if spec.scan == "zigzagN8":
            path = snake(spec.grid, number % 8)
        at = [place for place in path if place in seen(number)]
        residual = written(residual, at, residual[at] + keep(number, rates[number]) * stream[at])
        part = rms(residual[at], w[f"{name}.norm.weight"], 1e-5)
        shift, scale, gate, *of_text = linear(w, f"{name}.adaLN_modulation.1", c).split(spec.hidden)
        part = part + gate * mixing.MIXERS[spec.mixer](of(w, f"{name}.mixer."), part * (1 + scale) + shift)
        if of_text:
            shift, scale, gate = of_text
            part = part + gate * cross_attention(
                w, f"{name}.msa", layer_norm(part, 1e-6) * (1 + scale) + shift, context, 8
            )
        stream = written(stream, at, part)
    whole = rms(residual + keep(spec.depth, spec.drop_path) * stream, w["norm_f.weight"], 1e-5)
    return image(spec, linear(w, "final_layer.linear", layer_norm(whole, 1e-6)))


def snake(grid, path):
    """One of ZigMa's eight paths: from a corner, by rows or by columns, turning at every end."""
    corner, by_columns = divmod(path, 2)
    cells = torch.arange(grid[0] * grid[1]).view(grid)
    if corner % 2:
        cells = cells.flip(1)
    if corner // 2:
        cells = cells.flip(0)
    if by_columns:
        cells = cells.T
    visited = []
    for number, line in enumerate(cells.tolist()):
        visited += line[:: (-1) ** number]
    return visited


def dit(w, spec, x, t, y, seen, keep, rotates=False):
    """DiT, and LightningDiT, which rotates."""
    time = time_mlp(w, "t_embedder", t)
    if spec.context_tokens:
        c, context = F.silu(time), linear(w, "y_embedder", y)
    else:
        c, context = F.silu(time + label_row(w, y)), None
    plain = linear_attention if spec.attention == "linear" else self_attention
    stream = patches(w, "x_embedder", spec, x) + sincos_positions(spec.hidden, spec.grid)
    for number in range(spec.depth):
        name, at = f"blocks.{number}", seen(number)

        def read(part, name=name):
            if context is None:
                return part
            return part + cross_attention(w, f"{name}.cross_attn", part, context, spec.heads)

        if rotates:
            norm = partial(rms_of, w, f"{name}.norm")
            mix, mlp = partial(rotary_attention, w, f"{name}.attn", spec=spec, places=at), swiglu
        else:
            norm = layer_norm_of
            mix, mlp = partial(plain, w, f"{name}.attn", heads=spec.heads), gelu_mlp
        stream = written(stream, at, adaln(w, name, c, stream[at], norm, mix, partial(mlp, w, f"{name}.mlp"), read))
    if rotates:
        return final(w, spec, c, rms(stream, w["final_layer.norm_final.weight"], 1e-6))
    return final(w, spec, c, layer_norm(stream, 1e-6))


def jit(w, spec, x, t, y, seen, keep):
    """Copies of the label stand before the image tokens from a block on."""
    label = label_row(w, y)
    c = F.silu(time_mlp(w, "t_embedder", t) + label)
    narrow = cut(spec, x) @ w["x_embedder.proj1.weight"].flatten(1).T
    stream = narrow @ w["x_embedder.proj2.weight"].flatten(1).T + w["x_embedder.proj2.bias"]
    stream = stream + sincos_positions(spec.hidden, spec.grid)
    in_context = stream[:0]
    if spec.in_context_tokens:
        in_context = label + w["in_context_posemb"][0]
    for number in range(spec.depth):
        name, at = f"blocks.{number}", seen(number)
        count = len(in_context) * (number >= spec.in_context_start)
        part = adaln(
            *(w, name, c, torch.cat([in_context[:count], stream[at]])),
            partial(rms_of, w, f"{name}.norm"),
            partial(rotary_attention, w, f"{name}.attn", spec=spec, places=[0] * count + at),
            partial(swiglu, w, f"{name}.mlp"),
        )
        in_context = torch.cat([part[:count], in_context[count:]])
        stream = written(stream, at, part[count:])
    return final(w, spec, c, rms(stream, w["final_layer.norm_final.weight"], 1e-6))


def mmdit(w, spec, x, t, y, seen, keep):
    """SD3's figure 2b: two streams, and one attention over both; behind the last block's nothing reads the text."""
    c = F.silu(time_mlp(w, "t_embedder", t))
    words = linear(w, "context_embedder", y)
    stream = patches(w, "x_embedder", spec, x) + sincos_positions(spec.hidden, spec.grid)
    for number in range(spec.depth):
        name, at, is_last = f"joint_blocks.{number}", seen(number), number == spec.depth - 1
        shares, parts = [], {"context_block": words, "x_block": stream[at]}
        for which, part in parts.items():
            modulation = linear(w, f"{name}.{which}.adaLN_modulation.1", c).split(spec.hidden)
            shift, scale, *gates = modulation
            assert len(gates) == (0 if is_last and which == "context_block" else 4)
            q, k, v = linear(w, f"{name}.{which}.attn.qkv", layer_norm(part, 1e-6) * (1 + scale) + shift).chunk(3, 1)
            shares.append((q, k, v, gates))
        keys, values = (torch.cat([share[which] for share in shares]) for which in (1, 2))
        for (which, part), (q, _, _, gates) in zip(list(parts.items()), shares, strict=True):
            if gates:
                gate, shift, scale, gate_mlp = gates
                part = part + gate * linear(w, f"{name}.{which}.attn.proj", attend(q, keys, values, spec.heads))
                asked = layer_norm(part, 1e-6) * (1 + scale) + shift
                parts[which] = part + gate_mlp * gelu_mlp(w, f"{name}.{which}.mlp", asked)
        words, stream = parts["context_block"], written(stream, at, parts["x_block"])
    return final(w, spec, c, layer_norm(stream, 1e-6))


def moved(cells, block):
    """DiG's sequence before a block: reversed after every block, the grid transposed after every second one."""
    for number in range(block):
        cells = cells.flip(0)
        if number % 2:
            cells = cells.unflatten(0, (4, 4)).transpose(0, 1).flatten(0, 1)
    return cells


def dig(w, spec, x, t, y, seen, keep):
    """The whole sequence is moved, as released; cells without a token are zeros to the convolution."""
    c = F.silu(time_mlp(w, "t_embedder", t) + label_row(w, y))
    stream = patches(w, "x_embedder", spec, x) + sincos_positions(spec.hidden, spec.grid)
    firsts = {}
    for number in range(spec.depth):
        name, kept = f"blocks.{number}", seen(number)
        places = [(at, cell) for at, cell in enumerate(moved(torch.arange(16), number).tolist()) if cell in kept]
        path, order = map(list, zip(*places, strict=True))
        mixer, mixer_w, steps = spec.mixer, of(w, f"{name}.attn."), mixing.ONES
        if spec.attention_every and (number + 1) % spec.attention_every == 0:
            mixer = "attention"
        if spec.decay_skipped:
            steps = torch.tensor([-1, *path]).diff()

        def mix(asked, mixer=mixer, mixer_w=mixer_w, steps=steps, order=order):
            shares = {}
            if mixer == "rwkv7":
                values = mixing.values(mixer_w, asked)
                firsts_here = [firsts.setdefault(cell, v) for cell, v in zip(order, values, strict=True)]
                shares = {"first": torch.stack(firsts_here)}
            return mixing.MIXERS[mixer](mixer_w, asked, spec.heads, steps=steps, **shares)

        mlp = partial(swiglu, w, f"{name}.mlp", names=("gate_proj", "down_proj"))
        part = adaln(w, name, c, stream[order], layer_norm_of, mix, mlp)
        grid = written(torch.zeros(16, spec.hidden, dtype=x.dtype), path, part).T.unflatten(1, (4, 4))[None]
        grid = F.conv2d(grid, w[f"{name}.dw_conv.weight"], w[f"{name}.dw_conv.bias"], padding=1, groups=spec.hidden)
        stream = written(stream, order, grid[0].flatten(1).T[path])
    return final(w, spec, c, layer_norm(stream, 1e-6))


RESTATED = {
    "DiT": dit,
    "LightningDiT": partial(dit, rotates=True),
    "JiT": jit,
    "MMDiT": mmdit,
    "U-ViT": uvit,
    "DiS": dis,
    "ZigMa": zigma,
    "DRWKV": drwkv,
    "DiG": dig,
}
