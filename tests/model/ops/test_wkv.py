"""Every formulation of Bi-WKV against the float64 sum over all pairs, and against RWKV's own causal form."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest
import torch

from tests.model.ops.wkv_reference import bi_wkv_reference, inputs, relative_errors, with_gradients
from tread_bench.model.ops.wkv import bi_wkv

KERNELS = ["torch", "numba"]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
CASES = {  # batch, length, channels, scale of k, scale of w
    "ordinary": (2, 37, 8, 1.0, 0.02),
    "long": (2, 255, 16, 1.0, 0.02),
    "one token": (2, 1, 4, 1.0, 1.0),
    "two tokens": (3, 2, 5, 1.0, 0.1),
    "one channel": (2, 9, 1, 1.0, 0.1),
    "two blocks of channels": (2, 9, 150, 1.0, 0.1),
    "growing": (2, 129, 8, 2.0, -0.1),
    "wide k": (2, 63, 8, 30.0, 0.1),
    "steep": (2, 63, 8, 3.0, 1.5),
    "steep growth": (2, 63, 8, 3.0, -1.5),
}


@every_kernel
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_sum_over_all_pairs_with_every_gradient(case, dtype, limit, kernel):
    arguments, grad_y = inputs(*CASES[case])
    exact = with_gradients(bi_wkv_reference, arguments, grad_y, torch.float64)
    errors = relative_errors(with_gradients(bi_wkv, arguments, grad_y, dtype, kernel=kernel), exact)
    assert all(error <= limit for error in errors.values())


@every_kernel
@pytest.mark.parametrize("where", ["k", "v"])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_not_finite_stays_visible(bad, where, kernel):
    (w, u, k, v), _ = inputs(2, 7, 4, 1.0, 0.1)
    (k if where == "k" else v)[1, 3, 2] = bad
    y = bi_wkv(w, u, k, v, kernel)
    assert not y[1, :, 2].isfinite().all() and y[0].isfinite().all()


def in_a_subprocess(script, **environment):
    """What the script prints as JSON in a fresh interpreter."""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


TRITON = """
import json, torch
from tests.model.ops import wkv_reference
from tread_bench.model.ops.wkv import bi_wkv
errors = {{}}
for name, case in {cases!r}.items():
    arguments, grad_y = wkv_reference.inputs(*case)
    exact = wkv_reference.with_gradients(wkv_reference.bi_wkv_reference, arguments, grad_y, torch.float64)
    arguments = [x.to({device!r}) for x in arguments]
    computed = wkv_reference.with_gradients(bi_wkv, arguments, grad_y.to({device!r}), kernel="triton")
    errors[name] = wkv_reference.relative_errors(computed, exact)
print(json.dumps(errors))
"""
TINY = {
    "odd": (2, 7, 5, 1.0, 0.1),
    "two blocks of channels": (1, 3, 33, 2.0, 0.3),
    "growing": (1, 9, 3, 3.0, -0.5),
    "wide k": (1, 7, 3, 20.0, 0.5),
}
has_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
TRITON_VERSION = tuple(map(int, version("triton").split(".")[:2])) if importlib.util.find_spec("triton") else (0, 0)


def check_triton(cases, device, **environment):
    for name, errors in in_a_subprocess(TRITON.format(cases=cases, device=device), **environment).items():
        limit = 1e-4 if name in ("wide k", "steep", "steep growth") else 1e-5  # y is all but one v: v - y cancels
        assert all(error <= limit for error in errors.values())


@pytest.mark.skipif(TRITON_VERSION < (3, 9), reason="Triton's interpreter before 3.9 does not work with NumPy 2.4")
@has_triton
@pytest.mark.full
def test_triton_kernels_interpreted_on_tiny_shapes():
    check_triton(TINY, "cpu", TRITON_INTERPRET="1")


@has_triton
@pytest.mark.gpu
def test_triton_kernels_on_a_gpu():
    check_triton(TINY | CASES, "cuda")


RWKV = """
import contextlib, io, json, torch
with contextlib.redirect_stdout(io.StringIO()):
    from rwkv.model import RWKV
from torch.func import functional_call
from tread_bench.backbones.rwkv.family import DRWKVSpec
from tread_bench.backbones.rwkv.network import SpatialMix

length, width = 37, 16
torch.manual_seed(0)
draw = lambda *shape: torch.randn(shape)
x, grad = draw(length, width), draw(length, width)
ln_w, ln_b, k_mix, v_mix, r_mix = draw(width), draw(width), *torch.rand(3, width)
decays, matrices = [-torch.rand(width), draw(width)], [draw(width, width) / 4 for _ in range(4)]
leaves = [leaf.requires_grad_() for leaf in (x, *decays, *matrices)]
x, decay, first, key, value, receptance, output = leaves

zeros, empty = torch.zeros(width), [torch.empty(0)] * 16
theirs = RWKV.att_seq(
    None, x, zeros, zeros, zeros, zeros - 1e38, ln_w, ln_b, k_mix, v_mix, r_mix, decay, first,
    key, value, receptance, output, *empty,
)[0] - x
their_grads = torch.autograd.grad(theirs, leaves, grad)

normed = torch.nn.functional.layer_norm(x, (width,), ln_w, ln_b)
shifted = torch.cat([torch.zeros(1, width), normed[:-1]])
module = SpatialMix(DRWKVSpec(hidden=width), 0, "torch")

def last_of(length):  # nothing follows the last token, so there both directions are the causal one
    parameters = {
        "spatial_decay": -decay * length, "spatial_first": first * length,
        "spatial_mix_k": k_mix, "spatial_mix_v": v_mix, "spatial_mix_r": r_mix,
        "key.weight": key.T, "value.weight": value.T, "receptance.weight": receptance.T, "output.weight": output.T,
    }
    return functional_call(module, parameters, (normed[None, :length], shifted[None, :length]))[0, -1]

ours = torch.stack([last_of(t + 1) for t in range(length)])
our_grads = torch.autograd.grad(ours, leaves, grad)
names = ("y", "x", "decay", "first", "key", "value", "receptance", "output")
pairs = zip(names, (ours, *our_grads), (theirs, *their_grads), strict=True)
print(json.dumps({name: float((a - b).abs().max() / b.abs().max()) for name, a, b in pairs}))
"""


@pytest.mark.skipif(importlib.util.find_spec("rwkv") is None, reason="rwkv is not installed (extra rwkv)")
def test_time_mixing_of_the_rwkv_package_in_its_causal_direction():
    errors = in_a_subprocess(RWKV, RWKV_JIT_ON="0")  # its import changes flags of the whole process
    assert all(error <= 1e-5 for error in errors.values())
