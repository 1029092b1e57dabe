"""Local data sets of Hugging Face's `datasets`, without torch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tread_bench.core.describe.data_sources import DataFamily, Place, always_comparable
from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import all_matches, folder_name, matches
from tread_bench.core.stored.foreign import check_file, read_file
from tread_bench.data.captions.family import caption_files
from tread_bench.data.images.family import TableOptions, counted, is_flipped

if TYPE_CHECKING:
    from datasets import Dataset


class HfDatasetData(TableOptions):
    """Images in local data sets of Hugging Face's `datasets`, which reads them."""

    name: Literal["hf_dataset"] = "hf_dataset"
    train: tuple[str, ...] = Field(
        min_length=1,
        description="folders of one split each that `save_to_disk` of `datasets` wrote, Parquet files, or globs",
    )
    held_out: tuple[str, ...] = Field(
        (), description="the same with the held-out images; empty: every tenth training image is held out"
    )


def open_dataset(path: str) -> Dataset:
    """Open a local data set without a network; rows stay on disk, and nothing in the folder is executed.

    Raises:
        UserError: it cannot be read, it has several splits, or `datasets` is not installed.
    """
    from tread_bench.core.stored.cache import cache_folder  # whose models need this description first

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
            return datasets.Dataset.from_parquet(path, cache_dir=str(cache_folder("datasets")))
        found = datasets.load_from_disk(path)
        if isinstance(found, datasets.Dataset):
            return found.select(selected) if (selected := _selected(path)) is not None else found
    except Exception as error:  # a damaged file may raise anything
        way_out = "name a folder that `save_to_disk` of `datasets` wrote, or a Parquet file"
        raise UserError(f"{path}: cannot be read ({str(error).partition(chr(10))[0]}); {way_out}") from None
    raise UserError(f"{path}: a folder of data sets; name one of them: {', '.join(found)}")


def _selected(path: str) -> list[int] | None:
    """Rows that were selected when a data set was saved by `datasets` 1, whose selection later versions ignore."""
    from datasets import Dataset, concatenate_datasets

    state = json.loads(read_file(os.path.join(path, "state.json")))
    names = [one["filename"] for one in state.get("_indices_data_files") or ()]
    if not names:
        return None
    parts = [Dataset.from_file(os.path.join(path, name)) for name in names]
    return list(concatenate_datasets(parts)["indices"])


def data_path(path: str) -> str:
    """Return a file as it is, and a folder as one that is read as a whole."""
    return folder_name(path) if os.path.isdir(path) else path


def _files(options: HfDatasetData, generates: bool) -> Iterator[tuple[Place, str]]:
    for key in ("train", "held_out"):
        for index, entry in enumerate(getattr(options, key)):
            yield from (((key, index), data_path(path)) for path in matches(entry))
    yield from caption_files(options.captions)


def _counts(options: HfDatasetData) -> tuple[int, int] | None:
    """Rows of both splits; None where a file cannot be read."""
    return counted(options, lambda entries: sum(len(open_dataset(path)) for path in all_matches(entries)))


HF_DATASET = DataFamily(
    name="hf_dataset",
    options=HfDatasetData,
    builder="tread_bench.data.hf_dataset.source:open_datasets",
    files=_files,
    not_comparable=always_comparable,
    extractor=None,
    counts=_counts,
    check_files="tread_bench.data.hf_dataset.source:file_problems",
    check_all="tread_bench.data.hf_dataset.source:image_problems",
    is_flipped=is_flipped,
)
