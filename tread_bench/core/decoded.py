"""What a run keeps of decoded images, so that each of its cells need not decode them again: where, and how much."""

from __future__ import annotations

from pathlib import Path

from tread_bench.core.config.data import DataChoice, ParquetData

FOLDER = "decoded"  # in the run folder
LOCK = ".decoded"  # beside it
MOST_BYTES = 2 * 2**30  # of a run; what goes beyond is decoded by every cell
_LABEL_BYTES = 8


def decoded_bytes(choice: DataChoice) -> int:
    """Of both splits with their labels; 0 where nothing is decoded, or where a file cannot be read.

    Reads the files' footers.
    """
    if not isinstance(choice, ParquetData):
        return 0
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        count = sum(pq.read_metadata(path).num_rows for path in (*choice.train, *choice.held_out))
    except (OSError, pa.ArrowException):
        return 0
    return count * (choice.channels * choice.image_size**2 + _LABEL_BYTES)


def is_kept(folder: Path, size: int) -> bool:
    """Whether a run keeps `size` bytes beyond what it has in `folder`."""
    kept = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return kept + size <= MOST_BYTES
