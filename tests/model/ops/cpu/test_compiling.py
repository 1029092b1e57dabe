"""Compiled kernels in threads, in forked processes, and in their cache on disk."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tread_bench.model.ops.cpu import compiling
from tread_bench.model.ops.cpu.compiling import VECTOR, WIDEST, blocks_of, compiled

FORKS = """
import os, torch
from concurrent.futures import ThreadPoolExecutor
from tread_bench.model.ops.scan import selective_scan

torch.set_num_threads(2)
generator = torch.Generator().manual_seed(0)
u, delta, B, C = (torch.randn(4, 9, width, generator=generator) for width in (20, 20, 3, 3))
A = -torch.rand(20, 3, generator=generator)

def scan():
    return selective_scan(u, delta, A, B, C, delta_softplus=True, kernel="numba")

before = scan()
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(scan(), before) else 1)
assert os.waitpid(child, 0)[1] == 0 and torch.equal(scan(), before)
with ThreadPoolExecutor(4) as pool:
    assert all(torch.equal(y, before) for y in pool.map(lambda _: scan(), range(200)))
"""


@pytest.mark.parametrize("channels", [1, VECTOR, 88, WIDEST, WIDEST + 1, 768, 1000])
def test_blocks_hold_all_channels_and_no_whole_vector_more_than_they_need(channels):
    blocks, vectors = blocks_of(channels)
    assert channels <= blocks * vectors * VECTOR < channels + blocks * VECTOR
    assert vectors * VECTOR <= WIDEST


@pytest.mark.full
def test_forked_children_and_python_threads_compute_what_their_parent_did():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], check=True, timeout=280)


def test_without_a_folder_to_write_to_it_is_compiled_all_the_same():
    scope = {}
    exec("def double(x):\n    x *= 2", scope)  # Numba finds no file for it, and so none beside it
    x = np.ones(3)
    compiled(scope["double"], np.float64)(x)
    assert (x == 2).all()


def test_cache_files_are_called_after_code_compiler_and_cpu(monkeypatch):
    names = set()
    for cpu in ("znver5", "haswell"):
        monkeypatch.setattr(compiling.llvm, "get_host_cpu_name", lambda cpu=cpu: cpu)
        names.add(compiling._fingerprint.__wrapped__())
    assert len(names) == 2
