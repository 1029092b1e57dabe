"""Opens the data source that a suite names."""

from __future__ import annotations

from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.plugins import named
from tread_bench.data.source import DataSource


def open_data(options: DataOptions) -> DataSource:
    """Open a data source. Raises UserError with file, row and rule where the data do not fit."""
    source: DataSource = named(options.family.builder)(options)
    return source
