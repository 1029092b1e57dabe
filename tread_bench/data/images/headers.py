"""Images that cannot be used, by the headers of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tread_bench.data.images.decode import Wanted, opened
from tread_bench.data.images.encoded import Encoded

_THREADS = 16  # which wait for files most of the time
_AT_A_TIME = 256  # images for a thread
_SHOWN = 3


def header_problems(encoded: Encoded, wanted: Wanted) -> Iterator[str]:
    """A message for each of the first three images that cannot be used, and one that counts the others."""
    count = len(encoded.classes)
    parts = (range(first, min(first + _AT_A_TIME, count)) for first in range(0, count, _AT_A_TIME))
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(lambda items: [*_problems(encoded, wanted, items)], parts)
        yield from shortened((message for messages in found for message in messages), count)


def _problems(encoded: Encoded, wanted: Wanted, items: Iterable[int]) -> Iterator[str]:
    for item in items:
        try:
            with encoded.open(item) as file:
                opened(file, wanted)
        except ValueError as error:
            yield f"{encoded.name(item)}: {error}"


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
