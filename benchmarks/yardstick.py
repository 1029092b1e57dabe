"""The largest rate of matrix products of this machine at this minute, by precision: what MFU is a share of."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

SHAPES = ((2048, 384, 1536), (2048, 1536, 384), (1024, 1024, 1024))  # rows, terms, columns; a DiT-S/2's, and a square
PRECISIONS = ("highest", "medium", "bfloat16")  # the first two are torch's names for float32 products
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product and the rate that it reached; calling it computes it once."""

    precision: str
    shape: tuple[int, int, int]
    gflops_per_s: float

    @property
    def flops(self) -> int:
        """Two per multiply-add."""
        rows, terms, columns = self.shape
        return 2 * rows * terms * columns

    def __call__(self) -> Tensor:
        a, b = _matrices(self.shape, self.precision)
        torch.set_float32_matmul_precision("highest" if self.precision == "bfloat16" else self.precision)
        return F.linear(a, b)


@cache
def _matrices(shape: tuple[int, int, int], precision: str) -> tuple[Tensor, Tensor]:
    rows, terms, columns = shape
    generator = torch.Generator().manual_seed(0)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    a, b = torch.randn(rows, terms, generator=generator), torch.randn(columns, terms, generator=generator)
    return a.to(dtype), b.to(dtype)


def fastest_products(clock: Callable[[], float] = time.process_time) -> dict[str, Product]:
    """The shape with the largest rate for each precision, on as many threads as torch has, by medians."""
    before = torch.get_float32_matmul_precision()
    try:
        found = [_timed(Product(p, shape, 0.0), clock) for p in PRECISIONS for shape in SHAPES]
    finally:
        torch.set_float32_matmul_precision(before)
    return {p: max((one for one in found if one.precision == p), key=lambda one: one.gflops_per_s) for p in PRECISIONS}


def _timed(product: Product, clock: Callable[[], float]) -> Product:
    product()
    seconds = []
    for _ in range(REPEATS):
        start = clock()
        product()
        seconds.append(clock() - start)
    return Product(product.precision, product.shape, product.flops / statistics.median(seconds) / 1e9)
