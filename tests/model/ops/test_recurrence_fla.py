"""flash-linear-attention's kernels: which are called with what, where no GPU is; and their results, where one is."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F

from tests.model.ops.test_recurrence import KINDS, inputs, token_by_token, with_gradients, worst
from tread_bench.model.ops.recurrence import delta_recurrence, gated_delta_rule, linear_recurrence


class Kernels:
    """The four kernels as their documentation has them: tokens before heads, in formulas of their own."""

    def __init__(self):
        self.dtypes = {}

    def noted(self, name, scale, q, g):
        assert scale == 1 and q.is_contiguous() and g.is_contiguous()
        self.dtypes[name] = (q.dtype, g.dtype)

    def chunk_gla(self, q, k, v, g, scale):
        self.noted("gla", scale, q, g)
        assert q.shape == k.shape == g.shape
        return self.scanned(q, k, v, g), None

    def chunk_simple_gla(self, q, k, v, g, scale):
        self.noted("simple_gla", scale, q, g)
        assert q.shape == k.shape and g.shape == v.shape[:3]
        return self.scanned(q, k, v, g[..., None]), None

    def chunk_gated_delta_rule(self, q, k, v, g, beta, scale):
        self.noted("gated_delta_rule", scale, q, g)
        assert g.shape == beta.shape == v.shape[:3]
        states = q.new_zeros(len(q), v.shape[2], k.shape[-1], v.shape[-1], dtype=torch.float32)
        y = []
        for t in range(v.shape[1]):
            states = states * g[:, t].exp()[..., None, None]
            missing = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t].float(), states))
            states = states + k[:, t, ..., None] * missing[..., None, :]
            y.append(torch.einsum("bhk,bhkv->bhv", q[:, t].float(), states))
        return torch.stack(y, 1).to(v.dtype), None

    def chunk_dplr_delta_rule(self, q, k, v, a, b, gk, scale):
        self.noted("dplr", scale, q, gk)
        assert q.shape == k.shape == a.shape == b.shape == gk.shape
        return self.scanned(q, k, v, gk, a, b), None

    @staticmethod
    def scanned(*arguments):
        heads_first = [x.transpose(1, 2).float() for x in arguments]
        return token_by_token(*heads_first).transpose(1, 2).to(arguments[2].dtype)


@pytest.fixture
def kernels(monkeypatch):
    """A stand-in of the package."""
    kernels = Kernels()
    places = {
        "gla": "chunk_gla",
        "simple_gla": "chunk_simple_gla",
        "gated_delta_rule": "chunk_gated_delta_rule",
        "generalized_delta_rule": "chunk_dplr_delta_rule",
    }
    for name in ("fla", "fla.ops"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name, function in places.items():
        module = ModuleType(f"fla.ops.{name}")
        setattr(module, function, getattr(kernels, function))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "tread_bench.model.ops.recurrence_fla", raising=False)
    yield kernels
    sys.modules.pop("tread_bench.model.ops.recurrence_fla", None)


def gated_inputs(length):
    """q, normalised k, v, g, beta, and a gradient of y."""
    (q, k, v, g, *_), grad = inputs("gated delta rule", length)
    beta = torch.rand(g.shape, generator=torch.Generator().manual_seed(1))
    return [q, F.normalize(k, dim=-1), v, g, beta], grad


def of_kind(kind, length):
    """The function, its arguments and a gradient of its result."""
    if kind == "replaced in part":
        return gated_delta_rule, *gated_inputs(length)
    arguments, grad = inputs(kind, length)
    return (delta_recurrence if len(arguments) == 6 else linear_recurrence), arguments, grad


ALL = [*KINDS, "replaced in part"]


@pytest.mark.parametrize("kind", ALL)
def test_each_recurrence_is_that_of_its_kernel(kind, kernels):
    function, arguments, grad = of_kind(kind, 23)
    ours = with_gradients(function, arguments, grad)
    theirs = with_gradients(lambda *some: function(*some, kernel="fla"), arguments, grad)
    assert worst(theirs, ours, floor=1e-3) < 1e-5
    assert len(kernels.dtypes) == 1


@pytest.mark.parametrize("kind", ALL)
def test_products_are_in_the_dtype_of_autocast_and_decays_in_float32(kind, kernels):
    function, arguments, _ = of_kind(kind, 9)
    assert function(*arguments, kernel="fla").dtype == torch.float32
    assert set(kernels.dtypes.values()) == {(torch.float32, torch.float32)}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert function(*arguments, kernel="fla").dtype == torch.float32
    assert set(kernels.dtypes.values()) == {(torch.bfloat16, torch.float32)}
    assert function(*[x.bfloat16() for x in arguments], kernel="fla").dtype == torch.bfloat16
    assert set(kernels.dtypes.values()) == {(torch.bfloat16, torch.float32)}


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
