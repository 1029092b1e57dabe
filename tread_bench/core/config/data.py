"""The data of a cell: settings of any announced data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tread_bench.core.config.base import one_of
from tread_bench.core.describe.data_sources import DataOptions, data_sources, find_data_source

if TYPE_CHECKING:
    DataChoice = DataOptions
else:
    DataChoice = one_of(data.options for data in data_sources().values())

DEFAULT_DATA = find_data_source("digits").options()  # a suite without `data` uses real images, without a download
