"""DiT's block on a CPU (Peebles and Xie, ICCV 2023, section 3.2): matrix products by torch, the rest compiled by Numba.

Shapes: B batch, N tokens, D width, H heads of E = D / H channels, M width of the MLP. float32 or float64, one dtype.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from itertools import accumulate, chain
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tread_bench.model.ops.cpu.adaln import adaln_kernels
from tread_bench.model.ops.cpu.compiling import arrays, real_of, run_items

EPSILON = 1e-6  # added to a variance, as DiT's norms have it


def adaln_block(x: Tensor, c: Tensor, layers: Iterable[nn.Linear], heads: int) -> Tensor:
    """Return y + gate2 * mlp(norm(y) * (1 + scale2) + shift2), (B, N, D), where y = x + gate1 * attention(...) alike.

    Shifts, scales and gates are modulation(silu(c)); the MLP has GELU by tanh; the norms have no gain and epsilon 1e-6.

    Args:
        x: (B, N, D), and c: (B, D).
        layers: modulation (D to 6 D: shift, scale and gate of attention, then of the MLP), queries, keys and values
            (D to 3 D), attention's output (D to D), and both layers of the MLP; each with a bias.

    Raises:
        NotImplementedError: the backward pass is to be differentiated again.
    """
    parameters = [parameter for layer in layers for parameter in (layer.weight, layer.bias)]
    return _AdalnBlock.apply(x, c, *parameters, heads)


@cache
def prepare() -> None:
    """Compile, or load from the disk, what float32 needs; without autograd, since this process may yet be forked."""
    ones = partial(torch.ones, device="cpu")
    layers = ((ones(outputs, 1), ones(outputs)) for outputs in (6, 3, 1, 1, 1))
    inputs: list[Any] = [ones(1, 1, 1), ones(1, 1), *chain.from_iterable(layers), 1]
    context = SimpleNamespace()
    context.save_for_backward = lambda *tensors: setattr(context, "saved_tensors", tensors)
    y = _AdalnBlock.forward(context, *inputs)
    with torch.no_grad():
        _AdalnBlock.backward(context, y)


class _AdalnBlock(torch.autograd.Function):
    """With the backward pass in closed form."""

    @staticmethod
    def forward(ctx: Any, x, c, w_mod, b_mod, w_qkv, b_qkv, w_proj, b_proj, w_1, b_1, w_2, b_2, heads: int) -> Tensor:
        kernels = adaln_kernels(real_of(x))
        x = x.contiguous()
        (batch, tokens, width), channels, wide = x.shape, x.shape[2] // heads, len(w_1)
        lines = batch * tokens

        # Shift, scale and gate of each branch, side by side.
        active_c = F.silu(c)
        modulation = torch.addmm(b_mod, active_c, w_mod.t())
        x_, modulation_, b_proj_, b_1_, b_2_ = arrays(x, modulation, b_proj, b_1, b_2)

        # Queries, keys and values of the modulated tokens, head by head.
        normed_1, stats_1 = torch.empty_like(x), x.new_empty(2, batch, tokens)
        run_items(kernels.norm, batch, x_, modulation_, 0, EPSILON, normed_1.numpy(), stats_1.numpy())
        qkv = torch.mm(normed_1.view(lines, width), w_qkv.t())
        parts = x.new_empty(3, batch, heads, tokens, channels)
        by_head = qkv.view(batch, tokens, 3, heads, channels).permute(2, 0, 3, 1, 4)
        torch.add(by_head, b_qkv.view(3, 1, heads, 1, channels), out=parts)
        q, k, v = parts.view(3, batch * heads, tokens, channels).unbind(0)

        # Attention.
        weights = torch.bmm(q, k.transpose(1, 2))
        run_items(kernels.softmax, batch, weights.view(batch, heads, tokens, tokens).numpy(), channels**-0.5)
        attended = torch.bmm(weights, v)
        joined = attended.view(batch, heads, tokens, channels).transpose(1, 2).reshape(x.shape)
        update_1 = torch.mm(joined.view(lines, width), w_proj.t()).view_as(x)
        between = torch.empty_like(x)
        between_ = between.numpy()
        run_items(kernels.gate, batch, x_, modulation_, 2 * width, update_1.numpy(), b_proj_, between_)

        # The MLP.
        normed_2, stats_2 = torch.empty_like(x), x.new_empty(2, batch, tokens)
        run_items(kernels.norm, batch, between_, modulation_, 3 * width, EPSILON, normed_2.numpy(), stats_2.numpy())
        hidden = torch.mm(normed_2.view(lines, width), w_1.t()).view(batch, tokens, wide)
        active = torch.empty_like(hidden)
        run_items(kernels.gelu, batch, hidden.numpy(), b_1_, active.numpy())
        update_2 = torch.mm(active.view(lines, wide), w_2.t()).view_as(x)
        y = torch.empty_like(x)
        run_items(kernels.gate, batch, between_, modulation_, 5 * width, update_2.numpy(), b_2_, y.numpy())

        ctx.save_for_backward(
            *(x, c, active_c, modulation, w_mod, w_qkv, w_proj, w_1, w_2, b_proj, b_1, b_2),
            *(normed_1, stats_1, parts, weights, joined, update_1),
            *(between, normed_2, stats_2, hidden, active, update_2),
        )
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor):
        if torch.is_grad_enabled():  # only for a second derivative, which loops would drop
            way_out = "build the backbone with kernels adaln: torch"
            raise NotImplementedError(f"kernel 'numba' has no second derivatives: {way_out}")
        x, c, active_c, modulation, w_mod, w_qkv, w_proj, w_1, w_2, b_proj, b_1, b_2, *computed = ctx.saved_tensors
        normed_1, stats_1, parts, weights, joined, update_1, between, normed_2, stats_2, hidden, active, update_2 = (
            computed
        )
        kernels = adaln_kernels(real_of(x))
        _, batch, heads, tokens, channels = parts.shape
        (width, wide), lines = (x.shape[2], len(w_1)), batch * tokens
        grad = grads[0].contiguous()
        x_, modulation_, b_proj_, b_1_, b_2_, grad_ = arrays(x, modulation, b_proj, b_1, b_2, grad)

        # Gradients that are sums over the tokens of a sample, side by side: of the modulation, then of the biases.
        sizes = (6 * width, 3 * width, width, wide, width)
        _, at_qkv, at_proj, at_1, at_2, columns = accumulate(sizes, initial=0)
        sums = x.new_empty(batch, columns)
        sums_ = sums.numpy()

        # The MLP.
        to_update = torch.empty_like(x)
        run_items(
            kernels.gate_back,
            *(batch, grad_, modulation_, 5 * width, update_2.numpy(), b_2_, to_update.numpy(), sums_, at_2),
        )
        flat = to_update.view(lines, width)
        to_w_2 = torch.mm(flat.t(), active.view(lines, wide))
        to_active, to_hidden = torch.mm(flat, w_2).view_as(hidden), torch.empty_like(hidden)
        run_items(kernels.gelu_back, batch, to_active.numpy(), hidden.numpy(), b_1_, to_hidden.numpy(), sums_, at_1)
        flat = to_hidden.view(lines, wide)
        to_w_1 = torch.mm(flat.t(), normed_2.view(lines, width))
        to_normed, to_between = torch.mm(flat, w_1).view_as(x), torch.empty_like(x)
        to_between_ = to_between.numpy()
        run_items(
            kernels.norm_back,
            *(batch, to_normed.numpy(), between.numpy(), modulation_, 3 * width, stats_2.numpy(), grad_, to_between_),
            sums_,
        )

        # Attention, from what it adds to the stream back to queries, keys and values.
        run_items(
            kernels.gate_back,
            *(batch, to_between_, modulation_, 2 * width, update_1.numpy(), b_proj_, to_update.numpy(), sums_, at_proj),
        )
        flat = to_update.view(lines, width)
        to_w_proj = torch.mm(flat.t(), joined.view(lines, width))
        to_joined = torch.mm(flat, w_proj).view(batch, tokens, heads, channels)
        q, k, v = parts.view(3, batch * heads, tokens, channels).unbind(0)
        to_attended = to_joined.transpose(1, 2).reshape(v.shape)
        to_weights = torch.bmm(to_attended, v.transpose(1, 2))
        weights_, to_weights_ = (tensor.view(batch, heads, tokens, tokens).numpy() for tensor in (weights, to_weights))
        run_items(kernels.softmax_back, batch, weights_, channels**-0.5, to_weights_)
        to_parts = torch.empty_like(parts)
        to_q, to_k, to_v = to_parts.view(3, batch * heads, tokens, channels).unbind(0)
        torch.bmm(to_weights, k, out=to_q)
        torch.bmm(to_weights.transpose(1, 2), q, out=to_k)
        torch.bmm(weights.transpose(1, 2), to_attended, out=to_v)

        # The norm before them.
        to_qkv = x.new_empty(batch, tokens, 3 * width)
        run_items(kernels.split_back, batch, to_parts.numpy(), to_qkv.numpy(), sums_, at_qkv)
        flat = to_qkv.view(lines, 3 * width)
        to_w_qkv = torch.mm(flat.t(), normed_1.view(lines, width))
        to_normed, to_x = torch.mm(flat, w_qkv).view_as(x), torch.empty_like(x)
        run_items(
            kernels.norm_back,
            *(batch, to_normed.numpy(), x_, modulation_, 0, stats_1.numpy(), to_between_, to_x.numpy(), sums_),
        )

        # The modulation, and the sums over the batch.
        to_modulation = sums[:, : 6 * width]
        to_w_mod = torch.mm(to_modulation.t(), active_c)
        to_c = torch.ops.aten.silu_backward(torch.mm(to_modulation, w_mod), c)
        to_b_mod, to_b_qkv, to_b_proj, to_b_1, to_b_2 = sums.sum(0).split(sizes)
        biased = (to_w_mod, to_b_mod, to_w_qkv, to_b_qkv, to_w_proj, to_b_proj, to_w_1, to_b_1, to_w_2, to_b_2)
        return to_x, to_c, *biased, None
