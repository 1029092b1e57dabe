"""The kernel that draws on CUDA gives the words of NumPy's generator."""

from __future__ import annotations

import importlib.util

import pytest

from tests.model.ops.test_wkv import in_a_subprocess
from tread_bench.core.numbers import draws
from tread_bench.model.samples import cuda_kernel

DRAWN = """
import json, torch
from tread_bench.model.ops.philox import raw_words
drawn = [raw_words(*case, torch.device({device!r})).cpu().numpy().view("uint32") for case in {cases!r}]
print(json.dumps([words.tolist() for words in drawn]))
"""
CASES = [("noise", 0, 3), ("time", 2**33 - 2, 5), ("order", 7, 300)]  # stream, first count, counts

has_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


def check_kernel(device, **environment):
    cases = [(draws.key_of(seed, stream), first, count) for seed, (stream, first, count) in enumerate(CASES)]
    found = in_a_subprocess(DRAWN.format(device=device, cases=cases), **environment)
    for seed, (stream, first, count) in enumerate(CASES):
        assert found[seed] == draws.words(seed, stream, first, count, draws.WORDS_PER_COUNT).tolist()


@has_triton
def test_the_kernel_draws_numpy_s_words():
    """Interpreted, counts beyond 32 bits and more than a program's among them."""
    check_kernel("cpu", TRITON_INTERPRET="1")


@has_triton
@pytest.mark.gpu
def test_the_kernel_draws_numpy_s_words_on_a_gpu():
    check_kernel("cuda")
    assert cuda_kernel() is not None
