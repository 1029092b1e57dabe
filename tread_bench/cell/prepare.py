"""A run's first task, where its cells will run: what its machine is like, and whether it can read the data."""

from __future__ import annotations

from collections.abc import Sequence

from tread_bench.cell.numerics import settle
from tread_bench.core.config import Compute, DataChoice
from tread_bench.core.documents import Choices
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems


def settle_with_data(compute: Compute, device: str, data: Sequence[DataChoice]) -> Choices:
    """As `settle`. Raises UserError, with a line for each, where data files cannot be used."""
    if problems := data_problems(data):
        raise UserError("\n".join(problems))
    return settle(compute, device)
