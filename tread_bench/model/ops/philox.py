"""The raw words of NumPy's Philox4x64 (Salmon et al., SC 2011), drawn by a Triton kernel on CUDA. Imports triton."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

COUNTS = 256  # per program, of four words each
_HIGHEST = 2**63


@triton.jit(do_not_specialize=["low_key", "high_key", "first", "total"])  # else it is compiled anew for some values
def _kernel(raw, low_key, high_key, first, total, COUNTS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * COUNTS + tl.arange(0, COUNTS)
    count = (first + at + 1).to(tl.uint64)  # NumPy counts from 1
    none = tl.zeros_like(count)
    low, high = low_key.to(tl.int64).to(tl.uint64), high_key.to(tl.int64).to(tl.uint64)
    zero, one, two, three = tl.philox_impl(count, none, none, none, low, high)
    tl.store(raw + at * 4, zero.to(tl.int64), at < total)
    tl.store(raw + at * 4 + 1, one.to(tl.int64), at < total)
    tl.store(raw + at * 4 + 2, two.to(tl.int64), at < total)
    tl.store(raw + at * 4 + 3, three.to(tl.int64), at < total)


def raw_words(key: int, first: int, count: int, device: torch.device) -> Tensor:
    """Return what the counts `first` ... give: (count, 4) words of 64 bits, in int64.

    Args:
        key: of 128 bits.
    """
    raw = torch.empty(count, 4, dtype=torch.int64, device=device)
    low, high = ((word + _HIGHEST) % 2**64 - _HIGHEST for word in (key, key >> 64))  # one type for all keys
    _kernel[(triton.cdiv(count, COUNTS),)](raw, low, high, first, count, COUNTS=COUNTS, enable_fp_fusion=False)
    return raw
