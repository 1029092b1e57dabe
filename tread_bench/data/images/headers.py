"""Images that cannot be used, by the headers of all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tread_bench.data.check import message_of
from tread_bench.data.images.decode import Wanted, is_turned, opened, turned
from tread_bench.data.images.encoded import Encoded, decoded

log = logging.getLogger(__name__)

_THREADS = 16  # which wait for files most of the time
_AT_A_TIME = 256  # images for a thread
_SHOWN = 3


def end_problems(encoded: Encoded, wanted: Wanted) -> Iterator[str]:
    """A message for the first and for the last image if it cannot be used."""
    for item in sorted({0, len(encoded.classes) - 1}):
        yield from message_of(decoded, encoded, item, wanted)


def header_problems(encoded: Encoded, where: str, wanted: Wanted) -> Iterator[str]:
    """Return a message for each of the first three images that cannot be used, and one that counts all of them.

    Warns of images that EXIF alone turns.

    Args:
        where: the files or folders that they are in, as the last message names them.
    """

    count = len(encoded.classes)
    by_exif = []

    def check(item: int) -> None:
        with encoded.open(item) as file:
            if is_turned(opened(file, wanted)):
                by_exif.append(item)

    yield from problems_in_threads(where, count, encoded.name, check)
    if by_exif:
        log.warning(turned(where, len(by_exif), count))


def problems_in_threads(
    where: str, count: int, name: Callable[[int], str], check: Callable[[int], None]
) -> Iterator[str]:
    """A message for each of the first three of `count` images for which `check` raises ValueError, and their number."""
    parts = (range(first, min(first + _AT_A_TIME, count)) for first in range(0, count, _AT_A_TIME))
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(lambda items: [*_problems(items, name, check)], parts)
        yield from shortened((message for messages in found for message in messages), where, count)


def _problems(items: Iterable[int], name: Callable[[int], str], check: Callable[[int], None]) -> Iterator[str]:
    for item in items:
        try:
            check(item)
        except ValueError as error:
            yield f"{name(item)}: {error}"


def shortened(messages: Iterable[str], where: str, count: int) -> Iterator[str]:
    """The first three of the messages on images in `where` and, if there are more, how many of `count` have one."""
    wrong = 0
    for wrong, message in enumerate(messages, 1):
        if wrong <= _SHOWN:
            yield message
    if wrong > _SHOWN:
        yield f"{where}: {wrong:,} of {count:,} images cannot be used; the first {_SHOWN} are named"
