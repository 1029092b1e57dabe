"""The precision of what must not depend on that of the training: encoders, decoders and feature networks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """No autocast, no TF32, no algorithm search: the result must not depend on the precision of the training."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with (
            nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False),
            torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False),
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
