"""The recurrences of `ops.recurrence` in chunks: matrix products in place of a loop over tokens.

Decays of up to a chunk's tokens are the exponentials of sums of g, which are never positive: none overflows, however
close to 0 a decay is. Shapes: B batch, H heads, L length, K channels of a key, V of a value, n chunks of C tokens.
"""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from tread_bench.model.ops.gradients import full_precision, join_backward

CHUNK = 32  # tokens of a chunk, at most: the fastest on a CPU, see docs/performance.md
SHORT = 4  # of one in which the decay of each pair of tokens and channel is computed on its own
MILD = 40.0  # e^-MILD squared is far inside float32's range


def in_chunks(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor | None = None, b: Tensor | None = None, *, mild: bool = False
) -> Tensor:
    """Compute the recurrence with ordinary operations, chunk by chunk; `mild`: no chunk decays by more than MILD."""
    # Cut into chunks, short ones of strong decays by channel; what is padded neither decays nor writes.
    length = v.shape[2]
    is_short = g.shape[-1] > 1 and not mild
    size = min(SHORT if is_short else CHUNK, 2 ** math.ceil(math.log2(length)))
    q, k, v, g = (_chunks(x, size) for x in (q, k, v, g))

    # Decays since a chunk's start, up to its end, and over all of it. Long sums keep their differences in float64.
    sums = (g if mild else g.double()).cumsum(-2)
    before = sums - g
    whole = sums[..., -1:, :]
    since_start = sums.exp().to(v.dtype)
    to_end = (whole - sums).exp().to(v.dtype)
    over_chunk = whole.exp().to(v.dtype).mT.unbind(2)  # (B, H, K or 1, 1) each

    def pairs(rows: Tensor, columns: Tensor, strict: bool = False) -> Tensor:
        """(..., C, C): sum_c rows_ic columns_jc e^{sums_ic - sums_jc} for j <= i, else 0.

        If `strict`, for j < i, and without the decay of token i itself.
        """
        at_row = before if strict else sums
        if sums.shape[-1] == 1:
            return rows @ columns.mT * _decays(at_row - sums.mT, strict).to(v.dtype)
        if is_short:
            exponents = (at_row.unsqueeze(-2) - sums.unsqueeze(-3)).movedim(-1, -3)  # (..., K, C, C)
            return (rows.mT.unsqueeze(-1) * columns.mT.unsqueeze(-2) * _decays(exponents, strict).to(v.dtype)).sum(-3)
        middle = whole / 2  # relative to half of the chunk's decay, no exponential leaves float32's range
        return ((rows * (at_row - middle).exp()) @ (columns * (middle - sums).exp()).mT).tril(-1 if strict else 0)

    # What a chunk reads of itself, and what it writes.
    y = pairs(q, k) @ v
    read = q * since_start
    writes = ((k * to_end).mT @ v).unbind(2)

    # Without a delta rule, states follow each other by decays and writes alone.
    states = [torch.zeros_like(writes[0])]
    if a is None or b is None:
        for decay, write in zip(over_chunk[:-1], writes, strict=False):
            states.append(torch.addcmul(write, decay, states[-1]))
        return _joined(y + read @ torch.stack(states, 2), length)

    # u_t = S_{t-1}^T a_t solves a triangular system in each chunk: of its own writes, and of the state before it.
    a, b = (_chunks(x, size) for x in (a, b))
    system = torch.eye(size, dtype=v.dtype, device=v.device) - pairs(a, b, strict=True)
    given = torch.cat([pairs(a, k, strict=True) @ v, a * before.exp().to(v.dtype)], -1)
    solved = torch.linalg.solve_triangular(system, given, upper=False, unitriangular=True)
    of_writes, of_state = (part.unbind(2) for part in solved.split([v.shape[-1], a.shape[-1]], -1))
    corrections = (b * to_end).mT.unbind(2)

    # States and u, chunk by chunk.
    u = []
    for decay, write, correction, of_own, of_before in zip(
        over_chunk, writes, corrections, of_writes, of_state, strict=True
    ):
        u.append(of_own + of_before @ states[-1])
        states.append(torch.addcmul(write, decay, states[-1]) + correction @ u[-1])
    return _joined(y + pairs(q, b) @ torch.stack(u, 2) + read @ torch.stack(states[:-1], 2), length)


def _chunks(x: Tensor, size: int) -> Tensor:
    """(B, H, L, X) to (B, H, n, C, X), with zeros behind the last token."""
    missing = -x.shape[2] % size
    return (F.pad(x, (0, 0, 0, missing)) if missing else x).unflatten(2, (-1, size))


def _joined(y: Tensor, length: int) -> Tensor:
    return y.flatten(2, 3)[:, :, :length]


def _decays(exponents: Tensor, strict: bool) -> Tensor:
    """Exponentials on and below the diagonal, or below it; else 0."""
    size = exponents.shape[-1]
    left_out = torch.ones(size, size, dtype=torch.bool, device=exponents.device).triu(0 if strict else 1)
    return exponents.masked_fill(left_out, -torch.inf).exp()


def _is_mild(g: Tensor) -> bool:
    """Whether no chunk decays by more than e^-MILD in any channel; False if a decay is not finite."""
    return bool(_chunks(g, min(CHUNK, g.shape[2])).sum(-2).min() >= -MILD)


# An operator, so that on the meta device multiply-adds are counted as those of the recurrence, however long a chunk is.
# Its backward pass computes the forward pass again, and keeps nothing but the inputs. Without a delta rule, a and b are
# empty: an operator takes no None.


@torch.library.custom_op("tread_bench::recurrence_scan", mutates_args=())
def recurrence_scan(q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
    correction = (a, b) if a.numel() else ()
    with full_precision(v):
        return in_chunks(q, k, v, g, *correction, mild=_is_mild(g)).contiguous()


@torch.library.custom_op("tread_bench::recurrence_scan_backward", mutates_args=())
def _recurrence_scan_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    correction = (a, b) if a.numel() else ()
    with full_precision(v):
        backward = torch.func.vjp(partial(in_chunks, mild=_is_mild(g)), q, k, v, g, *correction)[1]
        gradients = [x.contiguous() for x in backward(grad)]
    if not correction:
        gradients += [torch.empty_like(a), torch.empty_like(b)]
    return tuple(gradients)


def recurrence_flops(q_shape, k_shape, v_shape, g_shape, a_shape, *args, **kwargs) -> int:  # type: ignore[no-untyped-def]
    """Count three multiply-adds per token and entry of the state, two flops each: the decay, k v^T and S^T q.

    With a delta rule there are two more: S^T a and b u^T.
    """
    products = 5 if math.prod(a_shape) else 3
    return 2 * products * math.prod(v_shape) * k_shape[-1]


join_backward("recurrence_scan", recurrence_flops, lambda q, k, v, *others: torch.empty_like(v))
