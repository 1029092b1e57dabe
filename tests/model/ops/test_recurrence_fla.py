"""flash-linear-attention: its recurrences in PyTorch, called as its kernels are; and the kernels, where a GPU is."""

from __future__ import annotations

import importlib
import sys
import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from tests.model.ops.test_recurrence import KINDS, every_kernel, inputs, with_gradients, worst
from tread_bench.model.ops.recurrence import delta_recurrence, gated_delta_rule, linear_recurrence

KERNELS = {  # by the modules of fla.ops that have them, and what they compute in PyTorch
    "gla": ("chunk_gla", "gla.naive", "naive_recurrent_gla"),
    "simple_gla": ("chunk_simple_gla", "simple_gla.naive", "naive_recurrent_simple_gla"),
    "gated_delta_rule": ("chunk_gated_delta_rule", "gated_delta_rule.naive", "naive_recurrent_gated_delta_rule"),
    "generalized_delta_rule": ("chunk_dplr_delta_rule", "generalized_delta_rule.dplr.naive", "dplr_recurrence"),
}


@pytest.fixture
def given(monkeypatch):
    """Stand-ins of the kernels, and the dtypes that they are given: of queries, and of decays."""
    given = {}

    def stand_in(module, naive, q, k, v, *others, scale):
        assert scale == 1 and q.shape == k.shape and q.shape[:3] == v.shape[:3]
        assert q.is_contiguous() and others[0].is_contiguous()
        if module == "gated_delta_rule":
            others = others[::-1]  # strengths before decays
        given[module] = q.dtype, others[-1].dtype
        q = q * q.shape[-1] ** 0.5  # theirs in PyTorch divide by it
        if module == "generalized_delta_rule":  # heads before tokens
            return naive(*(x.transpose(1, 2) for x in (q, k, v, *others)))[0].transpose(1, 2), None
        return naive(q, k, v, *others)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without a GPU it says that there is none
        pytest.importorskip("fla.ops.gla", reason="flash-linear-attention is not installed: `tox` installs it")
        for module, (kernel, *naive) in KERNELS.items():
            function = getattr(importlib.import_module(f"fla.ops.{naive[0]}"), naive[1])
            ops = importlib.import_module(f"fla.ops.{module}")
            monkeypatch.setattr(ops, kernel, partial(stand_in, module, function))
    monkeypatch.delitem(sys.modules, "tread_bench.model.ops.recurrence_fla", raising=False)
    yield given
    sys.modules.pop("tread_bench.model.ops.recurrence_fla", None)


def of_kind(kind, length):
    """The function, its arguments and a gradient of its result."""
    if kind == "replaced in part":
        (q, k, v, g, *_), grad = inputs("gated delta rule", length)
        beta = torch.rand(g.shape, generator=torch.Generator().manual_seed(1))
        return gated_delta_rule, [q, F.normalize(k, dim=-1), v, g, beta], grad
    arguments, grad = inputs(kind, length)
    return (delta_recurrence if len(arguments) == 6 else linear_recurrence), arguments, grad


ALL = [*KINDS, "replaced in part"]


@every_kernel
@pytest.mark.parametrize("kind", ALL)
def test_each_recurrence_is_that_of_its_kernel(kind, kernel, given):
    function, arguments, grad = of_kind(kind, 64)
    ours, theirs = (with_gradients(partial(function, kernel=one), arguments, grad) for one in (kernel, "fla"))
    assert worst(ours, theirs, floor=1e-2) < 1e-5
    assert len(given) == 1


@pytest.mark.parametrize("kind", ALL)
def test_products_are_in_the_dtype_of_autocast_and_decays_in_float32(kind, given):
    function, arguments, _ = of_kind(kind, 9)
    assert function(*arguments, kernel="fla").dtype == torch.float32
    assert set(given.values()) == {(torch.float32, torch.float32)}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert function(*arguments, kernel="fla").dtype == torch.float32
    assert set(given.values()) == {(torch.bfloat16, torch.float32)}
    assert function(*[x.bfloat16() for x in arguments], kernel="fla").dtype == torch.bfloat16
    assert set(given.values()) == {(torch.bfloat16, torch.float32)}


@pytest.mark.gpu
@pytest.mark.parametrize("length", [1, 37, 256])
@pytest.mark.parametrize("kind", ALL)
def test_in_bfloat16_the_kernels_agree_with_ours_on_a_gpu(kind, length):
    pytest.importorskip("fla", reason="flash-linear-attention is not installed")
    function, arguments, grad = of_kind(kind, length)
    arguments = [F.pad(x, (0, 16 - x.shape[-1])) if x.shape[-1] > 1 else x for x in arguments]  # the fewest they take
    leaves = [x.cuda() if number == 3 else x.cuda().bfloat16() for number, x in enumerate(arguments)]
    grad = F.pad(grad, (0, 16 - grad.shape[-1])).cuda().bfloat16()
    results = []
    for kernel in ("torch", "fla"):
        leaves = [x.detach().requires_grad_() for x in leaves]
        y = function(*leaves, kernel=kernel)
        results.append([x.double() for x in (y, *torch.autograd.grad(y, leaves, grad))])
    assert worst(results[1], results[0], floor=0.1) <= 2e-2
