"""Images that cannot be used, by the headers of all of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from tread_bench.core.errors import UserError
from tread_bench.data.images.decode import Wanted, is_turned, opened, turned
from tread_bench.data.images.encoded import Encoded

log = logging.getLogger(__name__)

THREADS = 16  # which wait for files most of the time
_AT_A_TIME = 256  # images for a thread
_SHOWN = 3


def header_problems(encoded: Encoded, where: str, wanted: Wanted) -> Iterator[str]:
    """Return a message for each of the first three images that cannot be used, and one that counts all of them.

    Warns of images that EXIF alone turns.

    Args:
        where: the files or folders that they are in, as the last message names them.
    """
    by_exif = []

    def problems(items: range) -> list[str]:
        found = []
        for item in items:
            try:
                with encoded.open(item) as file:
                    if is_turned(opened(file, wanted)):
                        by_exif.append(item)
            except UserError:
                raise
            except ValueError as error:
                found.append(f"{encoded.name(item)}: {error}")
        return found

    wrong, count = 0, len(encoded.classes)
    parts = (range(first, min(first + _AT_A_TIME, count)) for first in range(0, count, _AT_A_TIME))
    with ThreadPoolExecutor(1 if encoded.is_in_order else THREADS) as pool:
        for message in chain.from_iterable(pool.map(problems, parts)):
            wrong += 1
            if wrong <= _SHOWN:
                yield message
    if wrong > _SHOWN:
        yield f"{where}: {wrong:,} of {count:,} images cannot be used; the first {_SHOWN} are named"
    if by_exif:
        log.warning(turned(where, len(by_exif), count))
