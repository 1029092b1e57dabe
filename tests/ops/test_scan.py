"""The selective scan against a sequential float64 reference, closed forms, and mamba-ssm's own reference."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from tread_bench.ops.scan import CHUNK, selective_scan
from tread_bench.ops.scan_reference import selective_scan_reference

NAMES = ("u", "delta", "A", "B", "C", "D", "z", "delta_bias")
LENGTHS = [1, 7, CHUNK, 63]


def inputs(length, batch=3, channels=5, states=4):
    generator = torch.Generator().manual_seed(length)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    wide, narrow = (batch, channels, length), (batch, states, length)
    A = -torch.rand(channels, states, generator=generator, dtype=torch.float64) * 4 - 0.1
    shapes = [wide, wide, None, narrow, narrow, (channels,), wide, (channels,)]  # of NAMES
    return tuple(A if shape is None else normal(*shape) for shape in shapes)


def output_and_gradients(scan, values):
    leaves = [v.clone().requires_grad_() for v in values]
    y = scan(*leaves, delta_softplus=True)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return dict(zip(("y", *NAMES), (y.detach(), *torch.autograd.grad(y, leaves, weights.to(y.dtype))), strict=True))


def largest_errors(computed, expected):
    """Largest absolute error over the largest reference value, by name."""
    errors = {}
    for name, reference in expected.items():
        error, scale = (computed[name].double() - reference).abs().max(), reference.abs().max()
        errors[name] = float(error / scale) if scale else float(error)
    return errors


@pytest.mark.parametrize("length", LENGTHS)
def test_float32_is_within_1e_5_of_the_float64_reference_with_every_gradient(length, capsys):
    values = inputs(length)
    expected = output_and_gradients(selective_scan_reference, values)
    errors = largest_errors(output_and_gradients(selective_scan, [v.float() for v in values]), expected)
    with capsys.disabled():
        print(f"\nscan, L={length}: " + ", ".join(f"{name} {error:.1e}" for name, error in errors.items()))  # noqa: T201
    assert max(errors.values()) <= 1e-5


@pytest.mark.parametrize("length", LENGTHS)
def test_in_float64_it_is_the_reference(length):
    values = inputs(length)
    expected = output_and_gradients(selective_scan_reference, values)
    errors = largest_errors(output_and_gradients(selective_scan, values), expected)
    assert max(errors.values()) <= 1e-12


def test_what_is_left_out_is_neutral():
    u, delta, A, B, C, D, _, _ = inputs(9)
    delta = F.softplus(delta)
    plain = selective_scan(u, delta, A, B, C)
    torch.testing.assert_close(plain, selective_scan_reference(u, delta, A, B, C))
    torch.testing.assert_close(selective_scan(u, delta, A, B, C, D), plain + D[:, None] * u)


def test_constant_decay_is_a_geometric_series():
    length, decay = 40, 0.9
    one = torch.ones(1, 1, length, dtype=torch.float64)
    A = torch.full((1, 1), decay, dtype=torch.float64).log()
    t = torch.arange(1, length + 1, dtype=torch.float64)
    torch.testing.assert_close(selective_scan(one, one, A, one, one)[0, 0], (1 - decay**t) / (1 - decay))


def test_states_are_independent_of_later_inputs():
    values = inputs(30)
    changed = [v.clone() for v in values]
    for v in (changed[0], changed[1], changed[3], changed[4]):
        v[:, :, 20:] += 1
    y, other = selective_scan(*values), selective_scan(*changed)
    assert torch.equal(y[:, :, :20], other[:, :, :20])
    assert not torch.isclose(y[:, :, 20:], other[:, :, 20:]).any()


@pytest.mark.parametrize("where", [0, 1, 3, 4])
def test_nan_reaches_the_output(where):
    values = list(inputs(30))
    values[where][0, 0, 10] = float("nan")
    y = selective_scan(*values, delta_softplus=True)
    assert y[0, 0, 10].isnan() and not y[1:].isnan().any()
    assert y[0, 0, 11:].isnan().all() or where == 4  # C reads one step, everything else stays in the state


def test_autocast_computes_in_float32_and_returns_the_input_type():
    values = [v.float() for v in inputs(20)]
    expected = output_and_gradients(selective_scan, values)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        computed = output_and_gradients(selective_scan, values)
    assert all(torch.equal(computed[name], expected[name]) for name in expected)
    assert selective_scan(values[0].bfloat16(), *values[1:]).dtype is torch.bfloat16


@pytest.mark.parametrize("leaf", range(5))
def test_gradients_of_gradients_raise(leaf):
    values = [v.requires_grad_(i == leaf) for i, v in enumerate(inputs(5)[:5])]
    gradient = torch.autograd.grad(selective_scan(*values).square().sum(), values[leaf], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="selective_scan_backward"):
        torch.autograd.grad((gradient + values[leaf]).sum(), values[leaf])


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # opcheck's own reading of non-leaf gradients
def test_the_operators_keep_torch_s_rules():
    u, delta, A, B, C = inputs(CHUNK + 3)[:5]
    u, delta, B, C = (v.permute(2, 0, 1).contiguous() for v in (u, delta, B, C))
    torch.library.opcheck(torch.ops.tread_bench.selective_scan, [v.requires_grad_() for v in (u, delta, A, B, C)])


def test_it_is_counted_by_the_stated_formula():
    u, delta, A, B, C = (v.requires_grad_() for v in inputs(5, batch=1, channels=3, states=2)[:5])
    counter = FlopCounterMode(display=False)
    with counter:
        y = selective_scan(u, delta, A, B, C)
        assert counter.get_total_flops() == 2 * 3 * 5 * 3 * 2  # a h, x B and C h per token, channel and state
        y.sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 3 * 5 * 3 * 2


def test_an_unknown_kernel_is_named():
    with pytest.raises(ValueError, match="unknown scan kernel 'mamba_sm'; did you mean 'mamba_ssm'"):
        selective_scan(*inputs(3), kernel="mamba_sm")


def test_against_mamba_ssm_s_reference(mamba_ssm_oracle, capsys):
    reference = mamba_ssm_oracle("ops.selective_scan_interface").selective_scan_ref
    for length in LENGTHS:
        values = [v.float() for v in inputs(length)]
        expected = output_and_gradients(reference, values)
        errors = largest_errors(output_and_gradients(selective_scan, values), expected)
        with capsys.disabled():
            print(f"\nscan against mamba_ssm, L={length}: largest error {max(errors.values()):.1e}")  # noqa: T201
        assert max(errors.values()) <= 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("length", [7, 256, 1000])
def test_the_fused_kernel_agrees_with_the_float64_reference(length):
    pytest.importorskip("selective_scan_cuda", reason="mamba-ssm is not installed with its CUDA extension")
    values = [v.cuda() for v in inputs(length, channels=16, states=16)]
    expected = output_and_gradients(selective_scan_reference, values)
    fused = partial(selective_scan, kernel="mamba_ssm")
    computed = output_and_gradients(fused, [v.float() for v in values])
    assert max(largest_errors(computed, expected).values()) <= 1e-5
