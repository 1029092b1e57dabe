"""Every formulation of the selective scan against a sequential float64 reference, closed forms, and mamba-ssm's own."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

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


@every_kernel
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_float32_is_within_1e_5_of_the_float64_reference_with_every_gradient(length, reverse, kernel):
    values = inputs(length)
    expected = output_and_gradients(selective_scan_reference, values, reverse=reverse)
    computed = output_and_gradients(selective_scan, [v.float() for v in values], reverse=reverse, kernel=kernel)
    check(computed, expected)


@every_kernel
@pytest.mark.parametrize("shift", [-20.0, 20.0], ids=["tiny steps", "big steps"])
def test_extreme_steps_are_as_exact(shift, kernel):
    values = inputs(2 * CHUNK + 1)
    values[1].add_(shift)
    expected = output_and_gradients(selective_scan_reference, values)
    computed = output_and_gradients(selective_scan, [v.float() for v in values], kernel=kernel)
    check(computed, expected)


@every_kernel
@pytest.mark.parametrize("channels", [16, 88, 300])
def test_any_number_of_channels_is_as_exact(channels, kernel):
    values = inputs(CHUNK + 2, batch=2, channels=channels, states=16)
    expected = output_and_gradients(selective_scan_reference, values)
    computed = output_and_gradients(selective_scan, [v.float() for v in values], kernel=kernel)
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


@pytest.mark.parametrize("extreme", [torch.inf, -torch.inf])
def test_infinite_steps_are_those_of_the_torch_form(extreme):
    values = [v.float() for v in inputs(10)]
    values[1][0, 4, 1] = extreme
    torch.testing.assert_close(
        *(selective_scan(*values, delta_softplus=True, kernel=kernel) for kernel in KERNELS), equal_nan=True
    )


@every_kernel
def test_autocast_computes_in_float32_and_returns_the_input_type(kernel):
    values = [v.float() for v in inputs(20)]
    expected = output_and_gradients(selective_scan, values, kernel=kernel)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        computed = output_and_gradients(selective_scan, values, kernel=kernel)
    assert all(torch.equal(computed[name], expected[name]) for name in expected)
    assert selective_scan(values[0].bfloat16(), *values[1:], kernel=kernel).dtype is torch.bfloat16


@every_kernel
@pytest.mark.parametrize("leaf", range(5))
def test_gradients_of_gradients_raise(leaf, kernel):
    values = [v.requires_grad_(i == leaf) for i, v in enumerate(inputs(5)[:5])]
    y = selective_scan(*values, kernel=kernel)
    gradient = torch.autograd.grad(y.square().sum(), values[leaf], create_graph=True)[0]
    with pytest.raises(RuntimeError, match=r"selective_scan_(numba_)?backward"):
        torch.autograd.grad((gradient + values[leaf]).sum(), values[leaf])


@pytest.mark.plain_bits
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # opcheck's own reading of non-leaf gradients
def test_the_operators_keep_torch_s_rules():
    u, delta, A, B, C = inputs(CHUNK + 3)[:5]
    u, delta, B, C = (v.transpose(0, 1).contiguous() for v in (u, delta, B, C))
    torch.library.opcheck(torch.ops.tread_bench.selective_scan, [v.requires_grad_() for v in (u, delta, A, B, C)])


@pytest.mark.plain_bits
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_numba_s_operator_keeps_them_too():
    from tread_bench.model.ops.cpu import scan_operator as scan_numba  # noqa: F401  (defines it)

    u, delta, A, B, C, D, z, bias = (v.float().requires_grad_() for v in inputs(CHUNK + 3))
    operator = torch.ops.tread_bench.selective_scan_numba
    torch.library.opcheck(operator, (u, delta, A, B, C, D, z, bias, True, False))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_numba_gives_the_same_bits_on_any_number_of_threads(threads):
    values = [v.float() for v in inputs(40, channels=200)]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        computed = output_and_gradients(selective_scan, values, kernel="numba")
    finally:
        torch.set_num_threads(before)
    expected = output_and_gradients(selective_scan, values, kernel="numba")
    assert all(torch.equal(computed[name], expected[name]) for name in expected)


def test_numba_refuses_shapes_that_do_not_fit():
    values = list(inputs(9))
    values[3] = values[3][:, :8]
    with pytest.raises(ValueError, match=r"B has shape \(3, 8, 4\), must have \(3, 9, 4\)"):
        selective_scan(*values, kernel="numba")


@every_kernel
def test_it_is_counted_by_the_stated_formula(kernel):
    u, delta, A, B, C = (v.requires_grad_() for v in inputs(5, batch=1, channels=3, states=2)[:5])
    counter = FlopCounterMode(display=False)
    with counter:
        y = selective_scan(u, delta, A, B, C, kernel=kernel)
        assert counter.get_total_flops() == 2 * 3 * 5 * 3 * 2  # a h, x B and C h per token, channel and state
        y.sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 3 * 5 * 3 * 2


def test_an_unknown_kernel_is_named():
    with pytest.raises(ValueError, match="unknown scan kernel 'mamba_sm'; did you mean 'mamba_ssm'"):
        selective_scan(*inputs(3), kernel="mamba_sm")


def test_against_mamba_ssm_s_reference(mamba_ssm_oracle):
    reference = mamba_ssm_oracle("ops.selective_scan_interface").selective_scan_ref

    def channels_first(u, delta, A, B, C, D, z, *rest, **options):
        return reference(u.mT, delta.mT, A, B.mT, C.mT, D, z.mT, *rest, **options).mT

    for length, kernel in product(LENGTHS, KERNELS):
        values = [v.float() for v in inputs(length)]
        expected = output_and_gradients(channels_first, values)
        computed = output_and_gradients(selective_scan, values, kernel=kernel)
        check(computed, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("length", [7, 256, 1000])
def test_the_fused_kernel_agrees_with_the_float64_reference(length):
    pytest.importorskip("selective_scan_cuda", reason="mamba-ssm is not installed with its CUDA extension")
    values = [v.cuda() for v in inputs(length, channels=16, states=16)]
    expected = output_and_gradients(selective_scan_reference, values)
    computed = output_and_gradients(selective_scan, [v.float() for v in values], kernel="mamba_ssm")
    assert max(largest_errors(computed, expected).values()) <= 1e-5
