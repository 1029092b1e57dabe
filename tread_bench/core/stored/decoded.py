"""Where, and up to which size, a run keeps decoded images, so that its cells need not decode them again."""

from __future__ import annotations

from pathlib import Path

FOLDER = "decoded"  # in the run folder
LOCK = ".decoded"  # beside it
MOST_BYTES = 2 * 2**30  # per run; beyond this limit, every cell decodes for itself


def is_kept(folder: Path, size: int) -> bool:
    """Return whether a run keeps `size` more bytes in addition to those in `folder`."""
    kept = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return kept + size <= MOST_BYTES
