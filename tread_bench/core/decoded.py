"""What a run keeps of decoded images, so that each of its cells need not decode them again: where, and how much."""

from __future__ import annotations

from pathlib import Path

FOLDER = "decoded"  # in the run folder
LOCK = ".decoded"  # beside it
MOST_BYTES = 2 * 2**30  # of a run; what goes beyond is decoded by every cell


def is_kept(folder: Path, size: int) -> bool:
    """Whether a run keeps `size` bytes beyond what it has in `folder`."""
    kept = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return kept + size <= MOST_BYTES
