"""Arrays that take long to find in many files, kept in the user's cache by names and stamps of the files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from tread_bench.core.stored.cache import cache_folder, keep
from tread_bench.core.stored.data_files import is_settled, stamp_of

_VERSION = 4  # of what is kept

Arrays = dict[str, NDArray[Any]]


def remembered(root: str, names: Sequence[str], find: Callable[[], Arrays]) -> Arrays:
    """Return what `find` returns for these files below `root`, from the cache if they are as they were then.

    A `root` that is a file, such as an archive, holds all of them.

    A cache that cannot be read or written costs time, not results.
    """
    # A key of the files' names and stamps, and the time of the latest change.
    digest, latest = hashlib.sha256(os.fsencode(f"{_VERSION}\0{os.path.realpath(root)}")), 0
    try:
        for name in names if os.path.isdir(root) else [""]:
            about = os.stat(os.path.join(root, name) if name else root)
            digest.update(os.fsencode(f"\0{name}\0{stamp_of(about)}"))
            latest = max(latest, about.st_ctime_ns)
    except OSError:
        return find()

    # Found there, or now.
    path = cache_folder("latents") / f"{digest.hexdigest()}.safetensors"
    with suppress(OSError, SafetensorError):
        return load_file(path)
    found = find()
    if is_settled(latest):
        keep(path, save(found))
    return found
