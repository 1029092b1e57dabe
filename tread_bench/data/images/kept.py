"""Decoded images in the run folder: one process decodes, the others wait for it and map its file into memory.

A file is named after its sources and its decoder. It appears complete or not at all, and a file whose content is not
what was written is decoded again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import PIL
from PIL import features
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.decoded import LOCK, MOST_BYTES, is_kept
from tread_bench.core.stored.files import replacing
from tread_bench.core.stored.locks import waited_for
from tread_bench.core.stored.outputs import OutputError
from tread_bench.data.images.family import ImageOptions
from tread_bench.data.source import DataSource, ImageSet

log = logging.getLogger(__name__)


def kept_or_decoded(choice: ImageOptions, folder: Path | None, decode: Callable[[], DataSource]) -> DataSource:
    """Images that were decoded before, mapped into memory, or the result of `decode`, kept for later cells.

    Args:
        folder: where a run keeps decoded images; None: nothing is kept.

    Raises:
        UserError: raised by `decode`.
        OSError: a data file cannot be read.
    """
    if folder is None:
        return decode()
    key = _key(choice)
    path = folder / f"{key}.safetensors"

    # Use the file if it exists.
    found = _load(path, choice)
    if found is not None:
        return found

    # One process decodes, others wait here for its file.
    size = choice.family.decoded_bytes(choice)
    with waited_for(folder.with_name(LOCK)):
        found = _load(path, choice)
        if found is not None:
            return found
        path.unlink(missing_ok=True)  # damaged
        if is_kept(folder, size):
            source = decode()
            if _key(choice) == key:  # else the files have changed meanwhile
                _save(source, path)
            return source

    # Too much to keep: each cell decodes for itself.
    size_mib = size / 2**20
    most_mib = MOST_BYTES / 2**20
    log.warning(
        "%.1f MiB of decoded images are not kept for other cells: a run keeps at most %.1f MiB", size_mib, most_mib
    )
    return decode()


def _key(choice: ImageOptions) -> str:
    """Hash of the files' contents, and of all that decoded pixels depend on."""
    splits = ("train", "held_out")
    images = [(place[0], path) for place, path in choice.family.files(choice, False) if place[0] in splits]
    files = [(split, content_sha256(path)) for split, path in images]
    read = choice.model_dump(exclude={*splits, "horizontal_flip", "captions"})
    decoders = (PIL.__version__, *(features.version(name) for name in ("jpg", "zlib", "webp", "libtiff")))
    return hashlib.sha256(repr((files, read, decoders)).encode()).hexdigest()


def _save(source: DataSource, path: Path) -> None:
    assert isinstance(source.train, ImageSet) and isinstance(source.held_out, ImageSet)
    tensors = {
        f"{name}.{part}": getattr(split, part)
        for name, split in (("train", source.train), ("held_out", source.held_out))
        for part in ("pixels", "classes")
    }
    with suppress(OSError, OutputError):  # what cannot be kept costs time, not results
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as temporary:
            save_file(tensors, temporary, {"key": path.stem, "content": source.sha256})


def _load(path: Path, choice: ImageOptions) -> DataSource | None:
    """None where there is no such file, or where its content is not what was written."""
    try:
        with safe_open(path, framework="pt") as file:  # which maps, where NumPy's would copy
            about = file.metadata() or {}
            train, held_out = (
                ImageSet(*(file.get_tensor(f"{name}.{part}").numpy() for part in ("pixels", "classes")))
                for name in ("train", "held_out")
            )
        source = DataSource(train, held_out, choice.num_classes)
        is_whole = (about.get("key"), about.get("content")) == (path.stem, source.sha256)
    except (OSError, SafetensorError, ValueError, TypeError):
        return None
    return source if is_whole else None
