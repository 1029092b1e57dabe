"""Images in the files of a folder, in the order of the numbers in their names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.errors import UserError, collected
from tread_bench.core.names import few
from tread_bench.core.stored.data_paths import entries_below, folder_name
from tread_bench.core.stored.foreign import IMAGE_BYTES, open_file
from tread_bench.data.check import messages_of
from tread_bench.data.class_folders import are_numbers, class_labels, class_names
from tread_bench.data.image_folder.listing import SUFFIXES
from tread_bench.data.images.decode import check_mode, decode_whole, header, is_grey, is_turned, turned
from tread_bench.data.images.headers import problems_in_threads
from tread_bench.data.latents.cache import Arrays, remembered
from tread_bench.measure.quality.png import is_grid
from tread_bench.measure.sets.limits import MOST_SIDE, Unchanged

Shape = tuple[int, int, int]  # (C, H, W)
PNG = (".png",)
_THREADS = 8  # that decode; Pillow's decoders run side by side
_SHOWN = 3


@dataclass(frozen=True)
class FolderStore:
    """Image files of one size in a folder and below.

    Args:
        root: the folder, with a separator at its end.
        names: of the files, relative to it, in their order.
        labels: (n,) of their class folders; None where they are in none.
        classes: names of these, by label; None where they are numbers.
    """

    root: str
    names: tuple[str, ...]
    shape: Shape
    labels: NDArray[np.int64] | None
    unchanged: Unchanged
    classes: tuple[str, ...] | None = None

    @classmethod
    def open(cls, path: Path, suffixes: Sequence[str]) -> FolderStore:
        """Read the headers of all files. Raises UserError with all mistakes."""
        # Which files there are, in which classes.
        root = folder_name(str(path))
        names = _listed(root, tuple(suffixes))
        unchanged = Unchanged.now(root, names)
        problems: list[str] = []
        labels = classes = None
        with collected(problems):
            labels, classes = _labels(root, names)

        # Headers in which nothing was found are not read again until a file changes.
        paths = [root + name for name in names]
        problems += messages_of(f"{__name__}:image_problems", (root, *suffixes), paths)
        if problems:
            raise UserError("\n".join(problems))
        _, shape = _common(root, names)
        assert shape is not None
        return cls(root, names, shape, labels, unchanged, classes)

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def sha256(self) -> str:
        """Hash of the names and contents of the images; those that have not changed are hashed only once."""
        return remembered(self.root, self.names, self._digest)["sha256"].tobytes().hex()

    def warnings(self) -> Iterator[str]:
        """Yield what to know of all figures of these images."""
        if self.count < len(self.unchanged.names):
            order = "in the order of the numbers in their names"
            yield f"{self.root}: the first {self.count:,} of {len(self.unchanged.names):,} images, {order}."
        if by_exif := int(remembered(self.root, self.names, self._digest)["turned"]):
            yield f"{turned(self.root, by_exif, self.count)}."

    def _digest(self) -> Arrays:
        digest = hashlib.sha256()
        by_exif = 0
        for name in self.names:
            with self._opened(name) as file:
                with suppress(ValueError):  # an image that has changed since its header was checked
                    by_exif += is_turned(header(file))
                file.seek(0)
                digest.update(os.fsencode(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\0"))
        return {"sha256": np.frombuffer(digest.digest(), dtype=np.uint8), "turned": np.array(by_exif)}

    def first(self, count: int) -> Self:
        """Return the set of its first images. Raises UserError where there are fewer."""
        if count > self.count:
            raise UserError(f"{self.root}: {self.count:,} images, and --num requests {count:,}")
        labels = None if self.labels is None else self.labels[:count]
        return replace(self, names=self.names[:count], labels=labels)

    def batches(self, size: int, start: int) -> Iterator[Tensor]:
        """(B, C, H, W) uint8, decoded in threads; grey images of a set in colour become colour. Raises UserError."""
        self.unchanged.check()
        with ThreadPoolExecutor(_THREADS) as threads:
            for first in range(start, self.count, size):
                images = threads.map(self._decoded, self.names[first : first + size])
                yield torch.from_numpy(np.stack([*images]))
        self.unchanged.check()

    def _decoded(self, name: str) -> NDArray[np.uint8]:
        with self._opened(name) as file:
            try:
                pixels = decode_whole(file, self.shape[0])
            except ValueError as error:
                raise UserError(f"{self.root}{name}: {error}; copy it again, or take it out") from None
        if pixels.shape != self.shape:
            raise UserError(f"{self.root}{name}: has another size than when the folder was opened")
        return pixels

    @contextmanager
    def _opened(self, name: str) -> Iterator[BufferedReader]:
        try:
            with open_file(self.root + name, IMAGE_BYTES) as file:
                yield file
        except OSError as error:
            raise UserError(f"{self.root}{name}: cannot be read ({error.strerror}); make it readable") from None


def image_problems(root: str, *suffixes: str) -> Iterator[str]:
    """Return a message for each of the first three images that cannot be used by their headers, and for how many more.

    All must have the size of the first one that can be read.
    """
    names = _listed(root, suffixes)
    first, shape = _common(root, names)

    def check(item: int) -> None:
        found = _shape(root, names[item])
        if shape is None or found[1:] == shape[1:]:
            return
        raise ValueError(f"{_in_words(found)} where {first} is {_in_words(shape)}; images of a set are of one kind")

    return problems_in_threads(root, len(names), lambda item: root + names[item], check)


def _common(root: str, names: Iterable[str]) -> tuple[str, Shape | None]:
    """The first image whose header can be read, and the shape of the set: its size, in colour if any image is."""
    first = ""
    shape: Shape | None = None
    for name in names:
        with suppress(ValueError):
            found = _shape(root, name)
            if shape is None:
                first = name
                shape = found
            if found[0] > 1:
                return first, (found[0], *shape[1:])
    return first, shape


def _in_words(shape: Shape) -> str:
    channels, height, width = shape
    return f"{'grey' if channels == 1 else 'colour'}, {width}x{height} pixels"


def _shape(root: str, name: str) -> Shape:
    """(C, H, W) of an image. Raises ValueError."""
    try:
        with open_file(root + name, IMAGE_BYTES) as file:
            image = header(file)
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None
    channels = 1 if is_grey(image) else 3
    check_mode(image, channels)
    if max(image.size) > MOST_SIDE:
        raise ValueError(f"{image.width}x{image.height} pixels; a side has at most {MOST_SIDE:,}")
    return channels, image.height, image.width


def _listed(root: str, suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the image files, in natural order: 2.png before 10.png. Raises UserError."""
    # Every image is a plain file, or a link to one.
    names = []
    try:
        for entry in entries_below(root):
            if not entry.name.lower().endswith(SUFFIXES):
                continue
            if not entry.is_file():
                raise UserError(f"{entry.path}: a link to nothing, a device or a pipe; take it out")
            if not is_grid(Path(entry.path)):
                names.append(entry.path.removeprefix(root))
    except OSError as error:
        raise UserError(f"{error.filename or root} cannot be read ({error.strerror})") from None

    # Some of them are images of the right format, and none of another one.
    if others := [name for name in names if not name.lower().endswith(suffixes)]:
        rule = "samples are PNG files, which keep every pixel; write them as PNG"
        raise UserError(f"{root}: {few(others, _SHOWN)}: {rule}")
    if not names:
        raise UserError(f"{root}: no image files ({', '.join(suffixes)}); name a folder that has some")
    return tuple(sorted(names, key=_natural))


def _natural(name: str) -> tuple[list[str | int], str]:
    parts = re.split("([0-9]+)", name)  # text and numbers in turn
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], name


def _labels(root: str, names: Sequence[str]) -> tuple[NDArray[np.int64] | None, tuple[str, ...] | None]:
    """Labels of the images, and the names of the classes where these are not whole numbers; None: there are none.

    Raises:
        UserError: some images have a class, and some have none.
    """
    found = class_names(root, names)
    if not any(found):
        return None, None
    if "" in found:
        loose = names[found.index("")]
        raise UserError(f"{root}: {loose} is in no class folder, and others are; move all into class folders, or none")
    labels = class_labels(found)
    classes = None if are_numbers(labels) else tuple(labels)
    return np.array([labels[name] for name in found], dtype=np.int64), classes
