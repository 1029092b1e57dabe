"""Checks of data files before anything is trained on them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.config.base import Model
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.cache import cache_folder, keep, one_at_a_time
from tread_bench.core.stored.data_files import FileState, is_settled, state_of

_SHOWN = 3  # classes in a message
_ENCODER = "tread_bench.data.text.encoder:encoder_problems"


def data_problems(read: Iterable[tuple[DataOptions, bool]], reads_everything: bool = False) -> list[str]:
    """Return one message for each mistake in data files: in headers, columns, labels, captions, and first and last
    samples.

    Files in which nothing was found are not read again until one of them changes.

    Args:
        read: data sources, each with whether samples are generated, to be compared with real images.
        reads_everything: also find what shows only where every sample is read.
    """
    found: dict[str, None] = {}  # each once, in order
    for options, generates in read:
        family = options.family
        if (encoder := options.text_encoder) is not None:
            files = [path for _, path in encoder.family.files(encoder)]
            found |= dict.fromkeys(messages_of(_ENCODER, (encoder,), files))
        for check in (family.check_files, family.check_all if reads_everything else None):
            if check is not None:
                files = [path for _, path in family.files(options, generates)]
                found |= dict.fromkeys(messages_of(check, (options, generates), files))
    return list(found)


def message_of(check: Callable[..., object], *values: object) -> Iterator[str]:
    """That of the UserError that a check raises, if it does."""
    try:
        check(*values)
    except UserError as error:
        yield str(error)


def absent_classes(labels: NDArray[np.int64], num_classes: int) -> Iterator[str]:
    """A message where classes of 0 .. num_classes - 1 have no training sample: images are generated of each class."""
    absent = [str(label) for label in sorted(set(range(num_classes)) - set(np.unique(labels).tolist()))]
    if not absent:
        return
    are = "classes" if len(absent) > 1 else "class"
    yield (
        f"data.num_classes {num_classes}: no training sample has {are} {few(absent, _SHOWN)}, and images are generated "
        "of every class; correct num_classes, number the labels from 0 without gaps, or set metrics.generate: false"
    )


def messages_of(check: str, arguments: tuple[Any, ...], files: Sequence[str]) -> list[str]:
    """Return what a check finds; nothing, without a look, where it found nothing in these very files before.

    A check that reads no files looks each time: what else it depends on is not known here.

    Args:
        check: "module:attribute" of a callable (*arguments) -> messages.
        arguments: all that the result depends on besides the files; options, as JSON, are part of the cache's key.
        files: paths of what is read.
    """
    # Where the cache says that nothing was found.
    before = _state(files)
    settings = [one.model_dump_json() if isinstance(one, Model) else repr(one) for one in arguments]
    key = (version("tread-bench"), check, settings, before)
    name = hashlib.sha256(repr(key).encode("utf-8", "surrogateescape")).hexdigest()
    clean = cache_folder("checked") / name

    # Otherwise look; nothing is kept of files that change meanwhile, or have just changed.
    with one_at_a_time(name):
        if before and clean.exists():
            return []
        try:
            found = list(named(check)(*arguments))
        except UserError as error:
            return [str(error)]
        except OSError as error:
            if error.filename is None:
                raise
            return [f"{error.filename}: cannot be read ({error.strerror})"]
        if before and not found and all(is_settled(file.changed_ns) for file in before) and _state(files) == before:
            keep(clean, check.encode())
        return found


def _state(files: Sequence[str]) -> list[FileState]:
    """That of each file that is there."""
    found = []
    for path in files:
        with suppress(OSError):
            found.append(state_of(path))
    return found
