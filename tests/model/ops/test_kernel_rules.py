"""What every operator with kernels of its own keeps: the scan, Mamba's convolution, Bi-WKV and the recurrences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.model.ops import test_conv, test_recurrence, test_scan, wkv_reference
from tread_bench.model.ops.conv import causal_conv
from tread_bench.model.ops.cpu import scan_operator, wkv_operator  # noqa: F401  (define operators of numba's)
from tread_bench.model.ops.recurrence import delta_recurrence, linear_recurrence
from tread_bench.model.ops.scan import selective_scan
from tread_bench.model.ops.wkv import bi_wkv

LENGTH = 40


@dataclass(frozen=True)
class Operator:
    """A function of tensors with a kernel.

    Args:
        arguments: of a length, in float32.
        macs: multiply-adds of the forward pass at a length.
        misfit: a part of an argument, which fits the others no more.
    """

    function: Callable[..., torch.Tensor]
    arguments: Callable[[int], list[torch.Tensor]]
    macs: Callable[[int], int]
    misfit: Callable[[torch.Tensor], torch.Tensor] = lambda x: x[..., :-1]


def of_recurrence(kind: str, function: Callable[..., torch.Tensor], products: int) -> Operator:
    return Operator(
        function,
        lambda length: test_recurrence.inputs(kind, length)[0],
        lambda length: products * 2 * 3 * length * 6 * 5,
        lambda x: x[:, :, :-1],
    )


OPERATORS = {
    "scan": Operator(
        partial(selective_scan, delta_softplus=True),
        lambda length: [x.float() for x in test_scan.inputs(length)],
        lambda length: 3 * 3 * length * 5 * 4,  # a h, x B and C h per token, channel and state
    ),
    "convolution": Operator(
        causal_conv,
        lambda length: [x.float() for x in test_conv.inputs(length)[:3]],
        lambda length: 2 * (length + 3) * 5 * 4,
        lambda x: x[..., :-1] if x.ndim == 3 else x[:-1],
    ),
    "bi_wkv": Operator(
        bi_wkv,
        lambda length: list(wkv_reference.inputs(2, length, 160, 1.0, 0.02)[0]),
        lambda length: 6 * 2 * length * 160,
    ),
    "linear recurrence": of_recurrence("gated linear attention", linear_recurrence, 3),
    "delta recurrence": of_recurrence("delta rule with a decay per channel", delta_recurrence, 5),
}
every_operator = pytest.mark.parametrize("name", OPERATORS)
OURS = [(name, "numba") for name in OPERATORS]
OURS += [(name, "torch") for name in OPERATORS if name != "convolution"]  # torch's own there


def with_gradients(operator: Operator, kernel: str, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
    leaves = [x.detach().requires_grad_() for x in arguments]
    y = operator.function(*leaves, kernel=kernel)
    return [y.detach(), *torch.autograd.grad(y.square().sum(), leaves)]


@every_operator
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_numba_gives_the_same_bits_on_any_number_of_threads(name: str, threads: int) -> None:
    operator, before = OPERATORS[name], torch.get_num_threads()
    found = []
    try:
        for number in (1, threads):
            torch.set_num_threads(number)
            found.append(with_gradients(operator, "numba", operator.arguments(LENGTH)))
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize(("name", "kernel"), OURS)
def test_autocast_changes_no_bit_and_half_precision_is_computed_in_float32(name: str, kernel: str) -> None:
    operator = OPERATORS[name]
    arguments = operator.arguments(LENGTH)
    expected = with_gradients(operator, kernel, arguments)
    narrow = [x.bfloat16() for x in arguments]
    rounded = operator.function(*(x.float() for x in narrow), kernel=kernel).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(map(torch.equal, with_gradients(operator, kernel, arguments), expected))
        assert torch.equal(operator.function(*narrow, kernel=kernel), rounded)


@pytest.mark.parametrize(("name", "kernel"), OURS)
def test_gradients_of_gradients_are_refused(name: str, kernel: str) -> None:
    operator = OPERATORS[name]
    for number in range(min(5, len(operator.arguments(5)))):  # the scan's others are of torch's own operators
        leaves = [x.requires_grad_(at == number) for at, x in enumerate(operator.arguments(5))]
        y = operator.function(*leaves, kernel=kernel)
        (gradient,) = torch.autograd.grad(y.square().sum(), leaves[number], create_graph=True)
        with pytest.raises(RuntimeError):
            torch.autograd.grad((gradient + leaves[number]).sum(), leaves[number])


@pytest.mark.parametrize(("name", "kernel"), OURS)
def test_multiply_adds_are_counted_by_the_stated_formula_and_twice_as_many_backwards(name: str, kernel: str) -> None:
    """On the meta device, as everywhere in this package."""
    operator = OPERATORS[name]
    leaves = [x.to("meta").requires_grad_() for x in operator.arguments(7)]
    with FlopCounterMode(display=False) as counter:
        y = operator.function(*leaves, kernel=kernel)
        assert counter.get_total_flops() == 2 * operator.macs(7)
        y.sum().backward()
    if name != "convolution":  # whose rows before the first token have no gradient
        assert counter.get_total_flops() == 3 * 2 * operator.macs(7)


@pytest.mark.parametrize("name", sorted(OPERATORS.keys() - {"convolution"}))
def test_an_unknown_kernel_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown .*kernel 'numbaa'; did you mean 'numba'"):
        OPERATORS[name].function(*OPERATORS[name].arguments(3), kernel="numbaa")


@every_operator
def test_numba_refuses_shapes_that_its_loops_would_read_beyond(name: str) -> None:
    operator = OPERATORS[name]
    for number in range(len(operator.arguments(5))):
        arguments = [operator.misfit(x) if at == number else x for at, x in enumerate(operator.arguments(5))]
        with pytest.raises(ValueError, match=r"must have|not \(|do not fit"):
            operator.function(*arguments, kernel="numba")


def opchecked() -> dict[str, tuple[Any, ...]]:
    u, delta, A, B, C, *others = OPERATORS["scan"].arguments(LENGTH)
    moved = [x.transpose(0, 1).contiguous() for x in (u, delta, B, C)]
    return {
        "selective_scan": (*moved[:2], A, *moved[2:]),
        "selective_scan_numba": (u, delta, A, B, C, *others, True, False),
        "causal_conv_numba": (*OPERATORS["convolution"].arguments(7), False),
        **{name: tuple(OPERATORS["bi_wkv"].arguments(5)) for name in ("bi_wkv", "bi_wkv_numba")},
    }


@pytest.mark.plain_bits
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # opcheck's own reading of non-leaf gradients
@pytest.mark.parametrize("name", opchecked())
def test_the_operators_keep_the_rules_of_torch_library(name: str) -> None:
    arguments = [x.requires_grad_() if isinstance(x, torch.Tensor) else x for x in opchecked()[name]]
    rules = ["test_schema", "test_autograd_registration", "test_faketensor"]
    if "wkv" not in name:
        rules.append("test_aot_dispatch_dynamic")
    torch.library.opcheck(getattr(torch.ops.tread_bench, name), arguments, test_utils=rules)
