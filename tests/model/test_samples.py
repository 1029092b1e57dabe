"""What a device draws is what the host draws, with the CPU in the device's place, and a kernel in that of CUDA's."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from tread_bench.core.numbers import draws
from tread_bench.model import samples
from tread_bench.model.samples import Samples, cuda_kernel

CPU = torch.device("cpu")
SHAPES = [(), (1,), (3, 3), (4, 8, 8)]
KINDS = {
    "uniform": lambda some, shape: some.uniform("noise", *shape),
    "normal": lambda some, shape: some.normal("noise", *shape),
    "integers": lambda some, shape: some.integers("noise", 1000),
}


def numpys_words(key, first, count, device):
    """In the place of the kernel."""
    words = draws.words(3, "noise", first, count, draws.WORDS_PER_COUNT)
    assert key == draws.key_of(3, "noise")
    return torch.from_numpy(words.view(np.int64).copy())


class AsCuda:
    type = "cuda"


@pytest.fixture(params=["host", "device", "kernel"])
def some(request, monkeypatch):
    """Samples 7 ... 206, drawn each way."""
    monkeypatch.setattr(samples, "cuda_kernel", lambda: numpys_words)
    device = {"host": None, "device": CPU, "kernel": AsCuda()}[request.param]
    return lambda first=7, count=200: Samples(3, first, count, device=device)


@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_are_the_host_s(some, shape):
    assert torch.equal(some().uniform("noise", *shape), torch.from_numpy(draws.uniform(3, "noise", 7, 200, shape)))
    assert torch.equal(some().integers("noise", 1000), torch.from_numpy(draws.integers(3, "noise", 7, 200, 1000)))
    normal, exact = some().normal("noise", *shape).numpy(), draws.normal(3, "noise", 7, 200, shape)
    assert normal.dtype == np.float32
    np.testing.assert_allclose(normal, exact, rtol=0, atol=1e-4)
    assert np.sqrt(np.mean((normal - exact) ** 2)) < 2e-6


@pytest.mark.parametrize("draw", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_do_not_depend_on_the_split_into_batches(some, draw, shape):
    parts = [draw(some(5, 13), shape), draw(some(18, 1), shape), draw(some(19, 26), shape)]
    assert torch.equal(draw(some(5, 40), shape), torch.cat(parts))


@pytest.mark.parametrize("error", [ImportError, RuntimeError])
def test_without_a_kernel_the_host_draws(error, monkeypatch):
    """As without Triton, and where it finds no compiler."""

    class Broken:
        @property
        def raw_words(self):
            raise error

    monkeypatch.setitem(sys.modules, "tread_bench.model.ops.philox", Broken())
    cuda_kernel.cache_clear()
    assert cuda_kernel() is None
    cuda_kernel.cache_clear()
