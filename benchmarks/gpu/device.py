"""Whether there is a GPU to measure, and how many."""

from __future__ import annotations

import os
import warnings

import torch


def gpus() -> int:
    """How many this process sees."""
    return torch.cuda.device_count()


def missing_device() -> str | None:
    """One line that says why nothing can be measured here, and what to do; None where torch sees a GPU."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return None
    if torch.version.cuda is None:
        reason = "was built without CUDA"
    elif warned:
        reason = f"cannot use the driver ({str(warned[0].message).splitlines()[0]})"
    elif (hidden := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        reason = f"sees none (CUDA_VISIBLE_DEVICES={hidden!r})"
    else:
        reason = "sees none"
    return (
        f"no GPU: torch {torch.__version__} {reason}; run this where `nvidia-smi` lists a GPU, with a torch built for "
        "its driver: `tread-bench doctor` says what this machine has"
    )
