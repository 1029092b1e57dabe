"""Checks of data files before anything is trained on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tread_bench.core.config.data import DataChoice, LatentsData, ParquetData
from tread_bench.core.errors import UserError


def data_problems(choices: Sequence[DataChoice]) -> list[str]:
    """One message for each file that cannot be used, by its headers, columns, labels, and first and last entries.

    Mistakes that can only be found by reading everything are found by the cell that reads it.
    """
    found: dict[str, None] = {}  # each once, in order
    for choice in choices:
        for check in _checks(choice):
            try:
                check()
            except UserError as error:
                found[str(error)] = None
    return list(found)


def _checks(choice: DataChoice) -> Iterator[Callable[[], None]]:
    """One check for each file; the code that reads a kind of file is imported only where there are some."""
    if isinstance(choice, ParquetData):
        from tread_bench.data import parquet

        for path in (*choice.train, *choice.held_out):
            yield partial(parquet.check_ends, choice, path)
    elif isinstance(choice, LatentsData):
        from tread_bench.data import latents, parquet

        for path in (*choice.train, *choice.held_out):
            yield partial(latents.check_ends, choice, path)
        if choice.images:
            real_images = parquet.ParquetImages(choice).choice
            for path in choice.images:
                yield partial(parquet.check_ends, real_images, path, "data.decoded_size")
