"""The files that a cell reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tread_bench.core.config.data import LatentsData, ParquetData

if TYPE_CHECKING:
    from tread_bench.core.config.suite import Cell

Place = tuple[str | int, ...]  # keys and indices that lead to the file's name in a cell


def files_of(cell: Cell) -> Iterator[tuple[Place, str]]:
    """Data, decoder, real images and weights of feature networks, each with its place; nothing is opened."""
    data, metrics = cell.data, cell.metrics
    if isinstance(data, ParquetData | LatentsData):
        yield from ((("data", "train", i), file) for i, file in enumerate(data.train))
        yield from ((("data", "held_out", i), file) for i, file in enumerate(data.held_out))
    if isinstance(data, LatentsData) and metrics.generate:
        yield from ((("data", "images", i), file) for i, file in enumerate(data.images))
        if data.decoder is not None:
            yield ("data", "decoder"), data.decoder
    for key in ("extractor_weights", "inception_weights"):
        if (file := getattr(metrics, key)) is not None:
            yield ("metrics", key), file
    for index, loss in enumerate(cell.auxiliary):
        yield from ((("auxiliary", index, key), file) for key, file in loss.family.files(loss))
