"""Local data sets of Hugging Face's `datasets`, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.describe.data_sources import DataFamily, always_comparable
from tread_bench.core.stored.data_paths import all_matches
from tread_bench.data.hf_dataset.arrow import arrow_files
from tread_bench.data.images.family import TableOptions, counted, decoded_bytes, is_flipped, whole_folders


class HfDatasetData(TableOptions):
    """Images in local folders that `save_to_disk` of Hugging Face's `datasets` wrote."""

    name: Literal["hf_dataset"] = "hf_dataset"
    train: tuple[str, ...] = Field(min_length=1, description="folders of data sets, or globs of such folders")
    held_out: tuple[str, ...] = Field(
        (), description="the same with the held-out images; empty: every tenth training image is held out"
    )


def _counts(options: HfDatasetData) -> tuple[int, int] | None:
    """Rows of both splits; None where a file cannot be read."""

    def rows(entries: tuple[str, ...]) -> int:
        return sum(table.num_rows for path in all_matches(entries) for _, table in arrow_files(path))

    return counted(options, rows)


HF_DATASET = DataFamily(
    name="hf_dataset",
    options=HfDatasetData,
    builder="tread_bench.data.hf_dataset.source:open_dataset",
    files=whole_folders,
    not_comparable=always_comparable,
    extractor=None,
    counts=_counts,
    check_files="tread_bench.data.hf_dataset.source:file_problems",
    check_all="tread_bench.data.hf_dataset.source:image_problems",
    stand_in="tread_bench.data.images.stand_in:write_dataset",
    is_flipped=is_flipped,
    decoded_bytes=decoded_bytes,
)
