"""Every formulation of the selective scan against a sequential float64 reference."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tread_bench.model.ops.scan import selective_scan
from tread_bench.model.ops.scan_torch import CHUNK

NAMES = ("u", "delta", "A", "B", "C", "D", "z", "delta_bias")
LENGTHS = [1, 7, CHUNK, 63]
KERNELS = ["torch", "numba"]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def inputs(length, batch=3, channels=5, states=4):
    """Of NAMES, in float64."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    wide, narrow = (batch, length, channels), (batch, length, states)
    A = -torch.rand(channels, states, generator=generator, dtype=torch.float64) * 4 - 0.1
    shapes = [wide, wide, None, narrow, narrow, (channels,), wide, (channels,)]
    return tuple(A if shape is None else normal(*shape) for shape in shapes)


def selective_scan_reference(u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, reverse=False):
    """The recurrence step by step, in the inputs' dtype."""
    # Step sizes.
    if delta_bias is not None:
        delta = delta + delta_bias
    if delta_softplus:
        delta = F.softplus(delta)

    # The recurrence h = exp(delta A) h + delta u B, y = C h, token by token.
    h_BDN = u.new_zeros(len(u), *A.shape)
    outputs = []
    steps = list(zip(u.unbind(1), delta.unbind(1), B.unbind(1), C.unbind(1), strict=True))
    for u_t, delta_t, B_t, C_t in reversed(steps) if reverse else steps:
        a_t = torch.exp(delta_t[:, :, None] * A)
        h_BDN = a_t * h_BDN + (delta_t * u_t)[:, :, None] * B_t[:, None, :]
        outputs.append((h_BDN * C_t[:, None, :]).sum(2))
    y = torch.stack(outputs[::-1] if reverse else outputs, dim=1)

    # The skip and the gate.
    if D is not None:
        y = y + D * u
    return y if z is None else y * F.silu(z)


def output_and_gradients(scan, values, **options):
    leaves = [v.clone().requires_grad_() for v in values]
    y = scan(*leaves, delta_softplus=True, **options)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    computed = (y.detach(), *torch.autograd.grad(y, leaves, weights.to(y)))
    return dict(zip(("y", *NAMES[: len(leaves)]), computed, strict=True))


def largest_errors(computed, expected):
    """Largest absolute error over the largest reference value, by name."""
    errors = {}
    for name, reference in expected.items():
        error, scale = (computed[name].double() - reference).abs().max(), reference.abs().max()
        errors[name] = float(error / scale) if scale else float(error)
    return errors


def check(computed, expected):
    assert max(largest_errors(computed, expected).values()) <= 1e-5


CASES = {  # sizes of the inputs, what is added to delta, and whether the scan is reversed
    **{f"length {length}": ({"length": length}, 0, False) for length in LENGTHS},
    **{f"reversed, length {length}": ({"length": length}, 0, True) for length in LENGTHS},
    "tiny steps": ({"length": 2 * CHUNK + 1}, -20, False),
    "big steps": ({"length": 2 * CHUNK + 1}, 20, False),
    **{f"{n} channels": ({"length": CHUNK + 2, "channels": n, "states": 16}, 0, False) for n in (16, 88, 300)},
}


@every_kernel
@pytest.mark.parametrize("case", CASES)
def test_float32_is_within_1e_5_of_the_float64_reference_with_every_gradient(case, kernel):
    sizes, shift, reverse = CASES[case]
    values = inputs(**sizes)
    values[1].add_(shift)
    expected = output_and_gradients(selective_scan_reference, values, reverse=reverse)
    computed = output_and_gradients(selective_scan, [v.float() for v in values], reverse=reverse, kernel=kernel)
    check(computed, expected)


@every_kernel
@pytest.mark.parametrize("given", [5, 6, 8], ids=["A B C", "and D", "all"])
@pytest.mark.parametrize("length", LENGTHS)
def test_in_float64_it_is_the_reference(length, given, kernel):
    values = inputs(length)[:given]
    expected = output_and_gradients(selective_scan_reference, values)
    errors = largest_errors(output_and_gradients(selective_scan, values, kernel=kernel), expected)
    assert max(errors.values()) <= 1e-12


@every_kernel
@pytest.mark.parametrize("where", [0, 1, 2, 3, 4, 5, 6, 7])
def test_nan_reaches_every_gradient_that_reads_it(where, kernel):
    values = [v.float() for v in inputs(30)]
    values[where].view(-1)[0] = float("nan")
    computed = output_and_gradients(selective_scan, values, kernel=kernel)
    expected = output_and_gradients(selective_scan_reference, values)
    for name, reference in expected.items():
        assert computed[name][reference.isnan()].isnan().all(), name


@pytest.mark.gpu
@pytest.mark.parametrize("length", [7, 256, 1000])
def test_the_fused_kernel_agrees_with_the_float64_reference(length):
    pytest.importorskip("selective_scan_cuda", reason="mamba-ssm is not installed with its CUDA extension")
    values = [v.cuda() for v in inputs(length, channels=16, states=16)]
    expected = output_and_gradients(selective_scan_reference, values)
    computed = output_and_gradients(selective_scan, [v.float() for v in values], kernel="mamba_ssm")
    assert max(largest_errors(computed, expected).values()) <= 1e-5
