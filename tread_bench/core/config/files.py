"""The files that a cell reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tread_bench.core.describe.data_sources import Place

if TYPE_CHECKING:
    from tread_bench.core.config.suite import Cell


def files_of(cell: Cell) -> Iterator[tuple[Place, str]]:
    """Yield the files of data, decoder, real images, reference and feature networks, each with its place in the cell.

    No file is opened.
    """
    data = cell.data
    yield from ((("data", *place), file) for place, file in data.family.files(data, cell.generates))
    yield from files_beside_data(cell)


def files_beside_data(cell: Cell) -> Iterator[tuple[Place, str]]:
    """Yield those of reference, feature networks, metrics and losses.

    What measures samples is read where some are generated.
    """
    for index, loss in enumerate(cell.auxiliary):
        yield from ((("auxiliary", index, key), file) for key, file in loss.family.files(loss))
    if not cell.generates:
        return
    metrics = cell.metrics
    for key in ("extractor_weights", "inception_weights", "reference"):
        if (file := getattr(metrics, key)) is not None:
            yield ("metrics", key), file
    if (network := metrics.extractor) is not None:
        yield from ((("metrics", "extractor", key), file) for key, file in network.family.files(network))
    for index, metric in enumerate(metrics.also):
        yield from ((("metrics", "also", index, key), file) for key, file in metric.family.files(metric))
