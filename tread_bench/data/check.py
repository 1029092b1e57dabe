"""Checks of data files before anything is trained on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tread_bench.core.data_sources import DataOptions
from tread_bench.core.errors import UserError
from tread_bench.core.plugins import named


def data_problems(read: Iterable[tuple[DataOptions, bool]]) -> list[str]:
    """One message for each file that cannot be used, by its headers, columns, labels, and first and last entries.

    Mistakes that can only be found by reading everything are found by the cell that reads it.

    Args:
        read: data sources, each with whether samples are generated, to be compared with real images.
    """
    found: dict[str, None] = {}  # each once, in order
    for options, generates in read:
        if check_files := options.family.check_files:
            found |= dict.fromkeys(named(check_files)(options, generates))
    return list(found)


def message_of(check: Callable[..., object], *values: object) -> Iterator[str]:
    """That of the UserError that a check raises, if it does."""
    try:
        check(*values)
    except UserError as error:
        yield str(error)
