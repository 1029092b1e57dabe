"""Opens the data source that a suite names."""

from __future__ import annotations

from pathlib import Path

from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.plugins import named
from tread_bench.data.source import DataSource


def open_data(options: DataOptions, decoded: Path | None = None) -> DataSource:
    """Open a data source. Raises UserError with file, row and rule where the data do not fit.

    Args:
        decoded: a run's folder of decoded images, for sources that need decoding; None: nothing is kept.
    """
    source: DataSource = named(options.family.builder)(options, decoded)
    return source
