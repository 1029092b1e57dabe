"""How the kernels of this folder are compiled, kept on disk, and spread over threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
import torch

EXACT = {"contract", "nsz"}
REORDERED = EXACT | {"reassoc", "arcp"}  # never all of fastmath: it may drop NaN

Kernel = Callable[..., None]
VECTOR, WIDEST = 16, 128  # channels: AVX512 holds 16 of float32; a block is whole vectors, and its rows fit a cache
inner = numba.njit(inline="always")  # of a function that kernels call: their options hold in it


def compiled(kernel: Kernel, real: type) -> Kernel:
    """Compile when first called, or load from Numba's cache: beside this file, else the user's, else there is none.

    The cache files are called after all that their content depends on, so that processes that compile at the same time,
    versions, and machines of different CPUs that share a folder cannot take one another's code.
    """
    kernel.__qualname__ = f"{kernel.__name__}-{real.__name__}-{_fingerprint()}"
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": REORDERED}
    try:
        return numba.njit(cache=True, **options)(kernel)
    except RuntimeError:  # no folder that Numba may write to
        return numba.njit(**options)(kernel)


@cache
def _fingerprint() -> str:
    """Of this folder's code, Numba, and the CPU that it compiles for."""
    machine = f"{numba.__version__} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    sources = (path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return sha256(b"".join([machine.encode(), *sources])).hexdigest()[:16]


def blocks_of(channels: int) -> tuple[int, int]:
    """Return how many blocks of channels, and how many vectors are in each: as few as hold them all."""
    blocks = -(-channels // WIDEST)
    return blocks, -(-channels // (blocks * VECTOR))


def run_blocks(kernel: Kernel, samples: int, channels: int, *arguments: object) -> None:
    """Call kernel(first, last, vectors, *arguments) for all blocks of all samples, on as many threads as torch has."""
    blocks, vectors = blocks_of(channels)
    run_items(kernel, samples * blocks, vectors, *arguments)


def run_items(kernel: Kernel, items: int, *arguments: object) -> None:
    """Call kernel(first, last, *arguments) for all items, such as samples, on as many threads as torch has."""
    threads = min(torch.get_num_threads(), items)
    if threads <= 1:
        kernel(0, items, *arguments)
        return
    cuts = [items * thread // threads for thread in range(threads + 1)]
    others = [_pool(os.getpid(), threads - 1).submit(kernel, *span, *arguments) for span in pairwise(cuts[1:])]
    kernel(0, cuts[1], *arguments)
    for other in others:
        other.result()


def check_shapes(tensors: Mapping[str, torch.Tensor], *shapes: Sequence[int]) -> None:
    """Raise ValueError where loops, which check nothing, would leave the tensors."""
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    expected = [tuple(shape) for shape in shapes]
    if [*found.values()] != expected:
        raise ValueError(f"shapes {found}: they must have {expected}, in this order")


def arrays(*tensors: torch.Tensor) -> list[np.ndarray]:
    """Return the same memory."""
    return [tensor.detach().numpy() for tensor in tensors]


def real_of(x: torch.Tensor) -> type:
    """Return the scalar type of a tensor in float32 or float64."""
    return np.float32 if x.dtype is torch.float32 else np.float64


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """One per process, since threads do not survive a fork."""
    return ThreadPoolExecutor(threads, f"tread-bench-{process}")
