"""Selective scan, Bi-WKV and linear recurrences, forward and backward, against other formulations of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.figure import Agreement, Figure, agree
from benchmarks.peers.packages import mamba_ssm_scan, rwkv_time_mixing
from benchmarks.peers.recurrence import by_views, token_by_token
from benchmarks.peers.wkv import two_scans
from benchmarks.row import SkippedError, row
from benchmarks.timing import Bench, always
from tread_bench.backbones.rwkv.family import DRWKVSpec
from tread_bench.backbones.rwkv.network import SpatialMix
from tread_bench.cell.kernels import missing
from tread_bench.model.ops.recurrence import delta_recurrence, linear_recurrence
from tread_bench.model.ops.scan import prepare_scan, selective_scan
from tread_bench.model.ops.wkv import bi_wkv, prepare_wkv

BATCH, TOKENS, INNER, STATES = 8, 256, 768, 16  # of a DiS-S/2's mixer
WIDTH = 384
TOLERANCE = 1e-5  # float32 against float32, of outputs and every gradient
CALLS = 5  # of ours that are timed together

Gradients = Callable[[], list[Tensor]]


def gradients(function: Callable[..., Tensor], leaves: Sequence[Tensor], grad: Tensor) -> Gradients:
    """A forward and a backward pass: the output, then the gradients of the leaves."""
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]

    def both_passes() -> list[Tensor]:
        y = function(*leaves)
        return [y, *torch.autograd.grad(y, leaves, grad)]

    return both_passes


def needs(kernel: str, device: str = "cpu") -> None:
    """Raises SkippedError where a kernel cannot be used here."""
    reason = (
        "torch sees no CUDA device" if device == "cuda" and not torch.cuda.is_available() else missing(kernel, device)
    )
    if reason is not None:
        raise SkippedError(f"kernel {kernel}: {reason}")


# Selective scan


@cache
def scan_inputs(device: str = "cpu") -> tuple[Tensor, ...]:
    """u, delta (B, L, D), A (D, N), B, C (B, L, N), and a gradient of y."""
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randn, generator=generator)
    u, grad = draw(BATCH, TOKENS, INNER), draw(BATCH, TOKENS, INNER)
    delta = F.softplus(draw(BATCH, TOKENS, INNER) - 2)
    A = -torch.arange(1.0, STATES + 1).expand(INNER, -1)
    B, C = draw(BATCH, TOKENS, STATES), draw(BATCH, TOKENS, STATES)
    return tuple(x.to(device).contiguous() for x in (u, delta, A, B, C, grad))


def our_scan(kernel: str, device: str = "cpu") -> Gradients:
    needs(kernel, device)
    prepare_scan(kernel)
    *leaves, grad = scan_inputs(device)
    return gradients(partial(selective_scan, kernel=kernel), leaves, grad)


def channels_first(tensors: Sequence[Tensor]) -> list[Tensor]:
    """(B, L, D) as (B, D, L), which mamba-ssm computes on; A stays."""
    return [x.mT.contiguous() if x.ndim == 3 else x for x in tensors]


@cache
def mamba_ssm_passes() -> Gradients:
    *leaves, grad = channels_first(scan_inputs())
    return gradients(mamba_ssm_scan(), leaves, grad)


@cache
def mamba_ssm_results() -> list[Tensor]:
    """In our layout; computed once, since it takes half a minute."""
    return channels_first(mamba_ssm_passes()())


def against_mamba_ssm(bench: Bench, kernel: str) -> Figure:
    ours, theirs = our_scan(kernel), mamba_ssm_passes()
    agreement = agree(ours(), mamba_ssm_results(), TOLERANCE)
    return timed(bench, ours, theirs, agreement)


def timed(bench: Bench, ours: Gradients, theirs: Gradients, agreement: Agreement) -> Figure:
    """Some calls of ours in turn with a call of theirs."""
    ours()  # its memory is warm again
    figure = bench.faster(always(theirs), always(ours, CALLS), agreement, fewest=2, facts={"subject_calls": CALLS})
    return figure.times(CALLS)


@row("scan/torch", required=130)
def scan_torch(bench: Bench) -> Figure:
    """The selective scan in PyTorch (B 8, L 256, D 768, N 16), forward and backward, against mamba-ssm's
    selective_scan_ref.
    """
    return against_mamba_ssm(bench, "torch")


@row("scan/numba", required=500, aim=750)
def scan_numba(bench: Bench) -> Figure:
    """The selective scan compiled by Numba, which cells on a CPU use, against mamba-ssm's selective_scan_ref."""
    return against_mamba_ssm(bench, "numba")


@row("gpu/scan")
def scan_fused(bench: Bench) -> Figure:
    """On a GPU: the scan in PyTorch against mamba-ssm's fused kernel, which cells there use; how many times faster the
    kernel is.
    """
    ours, plain = our_scan("mamba_ssm", "cuda"), our_scan("torch", "cuda")
    agreement = agree(ours(), plain(), TOLERANCE)
    return bench.faster(always(plain), always(ours), agreement, clock=bench.wall)


# Bi-WKV


@cache
def wkv_inputs(device: str = "cpu") -> tuple[Tensor, ...]:
    """w, u (C,), k, v (B, T, C), and a gradient of y."""
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    w, u = 0.05 * draw(WIDTH).abs(), draw(WIDTH)
    k, v, grad = (draw(BATCH, TOKENS, WIDTH) for _ in range(3))
    return tuple(x.to(device) for x in (w, u, k, v, grad))


def our_wkv(kernel: str, device: str = "cpu") -> Gradients:
    needs(kernel, device)
    prepare_wkv(kernel)
    *leaves, grad = wkv_inputs(device)
    return gradients(partial(bi_wkv, kernel=kernel), leaves, grad)


def against_two_scans(bench: Bench, kernel: str) -> Figure:
    *leaves, grad = wkv_inputs()
    ours, theirs = our_wkv(kernel), gradients(two_scans, leaves, grad)
    return timed(bench, ours, theirs, agree(ours(), theirs(), TOLERANCE))


@row("wkv/numba", required=2.5, aim=8)
def wkv_numba(bench: Bench) -> Figure:
    """Bi-WKV compiled by Numba, which cells on a CPU use, against the two loops over the tokens."""
    return against_two_scans(bench, "numba")


@row("wkv/rwkv")
def wkv_rwkv(bench: Bench) -> Figure:
    """DRWKV's spatial mixing (norm, projections, Bi-WKV by Numba; T 256, C 384, one sample), which mixes in both
    directions, against RWKV-4's time mixing of the `rwkv` package, which mixes in one, forward and backward. Both are
    the same function at the last token, where they are compared.
    """
    needs("numba")
    theirs = rwkv_time_mixing()

    # One sample and the weights of both.
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    x, grad = draw(TOKENS, WIDTH), draw(TOKENS, WIDTH)
    decay, first = -torch.rand(WIDTH, generator=torch.Generator().manual_seed(1)), draw(WIDTH)
    norm_weight, norm_bias = 1 + 0.1 * draw(WIDTH), 0.1 * draw(WIDTH)
    mix = torch.full((WIDTH,), 0.5)
    matrices = [draw(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(4)]
    leaves = (x, decay, first, *matrices)
    module = SpatialMix(DRWKVSpec(hidden=WIDTH), 0, "numba")
    zeros = torch.zeros(WIDTH)

    def time_mixing(x: Tensor, decay: Tensor, first: Tensor, *matrices: Tensor) -> Tensor:
        none = [torch.empty(0)] * 16  # of its scales for int8 weights
        norm = (norm_weight, norm_bias, mix, mix, mix)
        y: Tensor = theirs(None, x, zeros, zeros, zeros, zeros - 1e38, *norm, decay, first, *matrices, *none)[0]
        return y - x

    def spatial_mix(x: Tensor, decay: Tensor, first: Tensor, *matrices: Tensor) -> Tensor:
        normed = F.layer_norm(x, (WIDTH,), norm_weight, norm_bias)
        shifted = torch.cat([torch.zeros(1, WIDTH), normed[:-1]])
        names = ("key", "value", "receptance", "output")
        parameters = {f"{name}.weight": matrix.T for name, matrix in zip(names, matrices, strict=True)}
        parameters |= {f"spatial_mix_{name}": mix for name in "kvr"}
        parameters |= {"spatial_decay": -decay * TOKENS, "spatial_first": first * TOKENS}
        y: Tensor = torch.func.functional_call(module, parameters, (normed[None], shifted[None]))
        return y[0]

    # The same at the last token, then timed over all.
    at_last = torch.zeros_like(grad)
    at_last[-1] = grad[-1]
    our_last, their_last = (gradients(side, leaves, at_last)() for side in (spatial_mix, time_mixing))
    agreement = agree([our_last[0][-1], *our_last[1:]], [their_last[0][-1], *their_last[1:]], TOLERANCE)
    ours, other = (gradients(side, leaves, grad) for side in (spatial_mix, time_mixing))
    return timed(bench, ours, other, agreement)


@row("gpu/wkv")
def wkv_fused(bench: Bench) -> Figure:
    """On a GPU: Bi-WKV in PyTorch against the Triton kernel, which cells there use; how many times faster the kernel
    is.
    """
    ours, plain = our_wkv("triton", "cuda"), our_wkv("torch", "cuda")
    agreement = agree(ours(), plain(), TOLERANCE)
    return bench.faster(always(plain), always(ours), agreement, clock=bench.wall)


# Linear recurrences


@cache
def recurrence_inputs(channels: int, values: int, heads: int, decays: int, shared: bool, delta: bool) -> list[Tensor]:
    """q, k (B, H or 1, L, K), v (B, H, L, V), g (B, H, L, decays), of a delta rule a and b, and a gradient of y."""
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    keys = (BATCH, 1 if shared else heads, TOKENS, channels)
    q, k, v = draw(keys), draw(keys) / channels**0.5, draw(BATCH, heads, TOKENS, values)
    leaves = [q, k, v, F.logsigmoid(draw(BATCH, heads, TOKENS, decays) + 2)]
    if delta:
        k = F.normalize(k, dim=-1)
        leaves += [-k, k * draw(BATCH, heads, TOKENS, 1).sigmoid()]
    return [*leaves, draw(v.shape)]


SIZES = {  # channels of a key and of a value, heads, decays of a head, whether heads share keys, is a delta rule
    "gla": (WIDTH // 12, WIDTH // 6, 6, WIDTH // 12, False, False),
    "gated_delta": (WIDTH // 6, WIDTH // 3, 6, 1, False, True),
    "mamba2": (WIDTH // 6, WIDTH // 6, 12, 1, True, False),
    "rwkv7": (WIDTH // 6, WIDTH // 6, 6, WIDTH // 6, False, True),
}


def against_a_loop(bench: Bench, mixer: str, kernel: str, loop: Callable[..., Tensor]) -> Figure:
    if kernel == "numba":
        needs("numba")
    *leaves, grad = recurrence_inputs(*SIZES[mixer])
    recurrence = partial(delta_recurrence if len(leaves) == 6 else linear_recurrence, kernel=kernel)
    ours, theirs = gradients(recurrence, leaves, grad), gradients(loop, leaves, grad)
    return timed(bench, ours, theirs, agree(ours(), theirs(), TOLERANCE))


AT_S2 = f"forward and backward, at the sizes of S/2 (batch {BATCH}, {TOKENS} tokens)"
for mixer in SIZES:
    row(
        f"recurrence/{mixer}",
        required=5,
        claim=f"The recurrence of {mixer} in chunks, {AT_S2}, against the loop over tokens that papers and reference "
        "code have, which writes in place.",
    )(partial(against_a_loop, mixer=mixer, kernel="torch", loop=token_by_token))
    row(
        f"recurrence/{mixer}-views",
        claim=f"The recurrence of {mixer} in chunks, {AT_S2}, against a faster loop, which writes nothing in place.",
    )(partial(against_a_loop, mixer=mixer, kernel="torch", loop=by_views))
    row(
        f"recurrence/{mixer}-numba",
        required=5,
        claim=f"The recurrence of {mixer} compiled by Numba, which cells on a CPU use, {AT_S2}, against that loop.",
    )(partial(against_a_loop, mixer=mixer, kernel="numba", loop=by_views))
