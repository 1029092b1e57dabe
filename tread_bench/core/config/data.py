"""The data of a cell: the settings of a data source that is announced."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from tread_bench.core.data_sources import DataOptions, data_sources, find_data_source

if TYPE_CHECKING:
    DataChoice = DataOptions
else:
    DataChoice = Annotated[reduce(or_, (data.options for data in data_sources().values())), Field(discriminator="name")]

DEFAULT_DATA = find_data_source("digits").options()  # a suite that names none has real images, without a download
