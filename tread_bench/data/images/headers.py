"""Images that cannot be used, by the headers of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tread_bench.data.images.decode import Wanted, opened
from tread_bench.data.images.encoded import Encoded

_THREADS = 16  # which wait for files most of the time
_AT_A_TIME = 256  # images for a thread
_SHOWN = 3


def header_problems(encoded: Encoded, wanted: Wanted) -> Iterator[str]:
    """A message for each of the first three images that cannot be used, and one that counts the others."""

    def check(item: int) -> None:
        with encoded.open(item) as file:
            opened(file, wanted)

    return problems_in_threads(len(encoded.classes), encoded.name, check)


def problems_in_threads(count: int, name: Callable[[int], str], check: Callable[[int], None]) -> Iterator[str]:
    """A message for each of the first three of `count` images for which `check` raises ValueError, and one that
    counts the others."""
    parts = (range(first, min(first + _AT_A_TIME, count)) for first in range(0, count, _AT_A_TIME))
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(lambda items: [*_problems(items, name, check)], parts)
        yield from shortened((message for messages in found for message in messages), count)


def _problems(items: Iterable[int], name: Callable[[int], str], check: Callable[[int], None]) -> Iterator[str]:
    for item in items:
        try:
            check(item)
        except ValueError as error:
            yield f"{name(item)}: {error}"


def shortened(messages: Iterable[str], count: int) -> Iterator[str]:
    """The first three messages, and how many of `count` images have another one."""
    more = 0
    for number, message in enumerate(messages):
        if number < _SHOWN:
            yield message
        else:
            more += 1
    if more:
        yield f"{more:,} more of these {count:,} images cannot be used either"
