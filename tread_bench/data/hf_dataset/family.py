"""Local data sets of Hugging Face's `datasets`, without torch."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import all_matches
from tread_bench.core.stored.foreign import check_file, read_file
from tread_bench.data.images.family import TableOptions, image_family

if TYPE_CHECKING:
    from datasets import Dataset


class HfDatasetData(TableOptions):
    """Images in local data sets of Hugging Face's `datasets`, which reads them."""

    table: ClassVar[str] = "tread_bench.data.hf_dataset.source:DatasetTable"

    name: Literal["hf_dataset"] = "hf_dataset"
    train: tuple[str, ...] = Field(
        min_length=1,
        description="folders of one split each that `save_to_disk` of `datasets` wrote, Parquet files, or globs",
    )
    held_out: tuple[str, ...] = Field(
        (), description="the same with the held-out images; empty: every tenth training image is held out"
    )

    def paths(self, entries: Sequence[str]) -> list[str]:
        """Return the files and folders."""
        return all_matches(entries)

    def count(self, entries: Sequence[str]) -> int:
        """Return the number of rows of the data sets. Raises UserError."""
        return sum(len(open_dataset(path)) for path in self.paths(entries))


def open_dataset(path: str) -> Dataset:
    """Open a local data set without a network; rows stay on disk, and nothing in the folder is executed.

    Raises:
        UserError: it cannot be read, it has several splits, or `datasets` is not installed.
    """
    from tread_bench.core.stored.cache import cache_folder  # whose models need this description first
    from tread_bench.core.stored.data_files import content_sha256

    try:
        import datasets
    except ImportError:
        raise UserError("data hf_dataset needs Hugging Face's datasets: pip install 'tread-bench[hf]'") from None
    if not os.path.exists(path):  # which `datasets` could take for a name on the network
        raise UserError(f"{path}: no such file or folder")
    datasets.disable_progress_bars()
    try:
        if not os.path.isdir(path):
            check_file(path)
            copies = cache_folder("datasets") / content_sha256(path)  # `datasets` knows a file by its time alone
            return datasets.Dataset.from_parquet(glob.escape(path), cache_dir=str(copies))
        found = datasets.load_from_disk(path)
        if isinstance(found, datasets.Dataset):
            # The rows that were selected when `datasets` 1 saved them, whose selection later versions ignore.
            state = json.loads(read_file(os.path.join(path, "state.json")))
            files = [os.path.join(path, one["filename"]) for one in state.get("_indices_data_files") or ()]
            if not files:
                return found
            indices = datasets.concatenate_datasets([datasets.Dataset.from_file(file) for file in files])
            return found.select(indices["indices"])
    except Exception as error:  # a damaged file may raise anything
        way_out = "name a folder that `save_to_disk` of `datasets` wrote, or a Parquet file"
        raise UserError(f"{path}: cannot be read ({str(error).partition(chr(10))[0]}); {way_out}") from None
    raise UserError(f"{path}: a folder of data sets; name one of them: {', '.join(found)}")


HF_DATASET = image_family(HfDatasetData)
