"""A set of images, as a file, a folder or a data source holds it, in batches: never as a whole in memory."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.data_paths import entries_below, folder_name, named_where_unreadable
from tread_bench.core.stored.foreign import IMAGE_BYTES, check_file, one_line, open_file
from tread_bench.data.image_folder.listing import SUFFIXES
from tread_bench.data.images.decode import check_mode, decode_whole, header, is_grey
from tread_bench.data.latents.cache import Arrays, remembered
from tread_bench.measure.quality.png import GRID
from tread_bench.measure.sets.npz import Npz

IMAGES = "arr_0"  # in ADM's files
PNG = (".png",)
Shape = tuple[int, int, int]  # (C, H, W)
_THREADS = 8  # that decode; Pillow's decoders run side by side
MOST_SIDE = 4096  # pixels of an image
_FORM = f"images are uint8 of shape (n, H, W, C) in C order, with n at least 1, C 1 or 3, H and W at most {MOST_SIDE}"


@dataclass(frozen=True, eq=False)
class SampleSet:
    """Images of one size, in a fixed order, read batch by batch.

    Args:
        name: of the file or folder, without its place, or of the data source.
        shape: (C, H, W); C is 1 or 3.
        hashed: returns the hash of their content.
        batches: batch size -> images (B, C, H, W), uint8, in order, so many at a time; UserError names a damaged file.
        warnings: what to know of all figures of these images.
        made: how samples of a run are made, as JSON values.
        sampling: what figures depend on of that.
    """

    name: str
    count: int
    shape: Shape
    hashed: Callable[[], str] = field(repr=False)
    batches: Callable[[int], Iterator[Tensor]] = field(repr=False)
    warnings: Sequence[str] = ()
    made: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sampling: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return self.count

    @cached_property
    def sha256(self) -> str:
        """Hash of content and order; unchanged files are hashed only once."""
        return self.hashed()

    def check_unchanged(self) -> None:
        """Raise UserError if its content has changed since its hash was first asked for."""
        if self.hashed() != self.sha256:
            raise UserError(f"{self.name} has changed while it was read; try again when nothing writes to it")

    def picture(self, n: int) -> Tensor:
        """Return the first `n` images (n, C, H, W), uint8; all of them where there are fewer."""
        return next(self.batches(min(n, self.count)))


def open_samples(path: str | Path, num: int | None = None, suffixes: tuple[str, ...] = PNG) -> SampleSet:
    """Open images to be scored, or what they are compared with.

    Args:
        path: an .npz file with `arr_0`, images (n, H, W, C) of uint8, as ADM's evaluator takes them; the same as .npy;
            or a folder of PNG files of one size and below, in the order of the numbers in their names.
        num: of a folder, open only the first images in that order; None: all.
        suffixes: of a folder's files.

    Raises:
        UserError: it is none of these, with file and member.

    Source of the format: Dhariwal and Nichol 2021, guided_diffusion, evaluations/evaluator.py.
    """
    path = Path(path)
    if path.is_dir():
        return _of_folder(path, suffixes, num)
    if num is not None:
        raise UserError(f"--num {num}: for a folder, and {path} is a file; leave it out")
    return _of_npy(path) if path.suffix.lower() == ".npy" else of_npz(Npz(path))


# Files of arrays


def of_npz(npz: Npz) -> SampleSet:
    """The images of an .npz file, which are read as a stream. Raises UserError."""
    declared = npz.header(IMAGES)
    shape = _checked(f"{npz.path}: {IMAGES}", declared.dtype, declared.shape, declared.order == "F")

    def read(size: int) -> Iterator[Tensor]:
        return map(_channels_first, npz.rows(IMAGES, size))

    sha256 = partial(content_sha256, str(npz.path))
    return SampleSet(npz.path.stem, declared.shape[0], shape, sha256, read)


def _of_npy(path: Path) -> SampleSet:
    """The images of an .npy file, which is mapped. Raises UserError."""
    try:
        check_file(path)
        images = np.lib.format.open_memmap(path, "r")
    except Exception as error:  # a damaged header may raise anything
        raise UserError(f"{path}: no array that can be read ({one_line(error)}); {_FORM}") from None
    shape = _checked(str(path), images.dtype, images.shape)

    def read(size: int) -> Iterator[Tensor]:
        return (_channels_first(images[first : first + size]) for first in range(0, len(images), size))

    return SampleSet(path.stem, len(images), shape, partial(content_sha256, str(path)), read)


def _checked(where: str, dtype: np.dtype[Any], shape: tuple[int, ...], is_fortran: bool = False) -> Shape:
    """(C, H, W) of an array of images. Raises UserError."""
    is_right = dtype == np.uint8 and len(shape) == 4 and not is_fortran
    if not is_right or shape[3] not in (1, 3) or not math.prod(shape) or max(shape[1:3]) > MOST_SIDE:
        raise UserError(f"{where} is {dtype} of shape {shape}{' in Fortran order' * is_fortran}; {_FORM}")
    return shape[3], shape[1], shape[2]


def _channels_first(images: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(images.transpose(0, 3, 1, 2).copy())


# Folders


def _of_folder(path: Path, suffixes: tuple[str, ...], num: int | None) -> SampleSet:
    """The image files in a folder and below, decoded in threads; grey images of a set in colour become colour.

    Raises:
        UserError: there are none, or fewer than `num`; one is damaged, or of another format, mode or size.
    """
    # Which files there are, and what they hold; those that have not changed are read only once.
    root = folder_name(str(path))
    listed = _listed(root, suffixes)
    names = listed[:num]
    if num is not None and num > len(names):
        raise UserError(f"{root}: {len(listed):,} images, and --num requests {num:,}")

    def looked_through() -> Arrays:
        return remembered(root, names, lambda: _looked_through(root, names))

    found = looked_through()
    channels, height, width = map(int, found["shape"])
    warnings = []
    if len(names) < len(listed):
        order = "in the order of the numbers in their names"
        warnings.append(f"{root}: the first {len(names):,} of {len(listed):,} images, {order}.")

    def sha256() -> str:
        return looked_through()["sha256"].tobytes().hex()

    # Their pixels.
    def decoded(name: str) -> NDArray[np.uint8]:
        with _opened(root + name) as file:
            return decode_whole(file, channels).reshape(channels, height, width)

    def read(size: int) -> Iterator[Tensor]:
        with ThreadPoolExecutor(_THREADS) as threads:
            for first in range(0, len(names), size):
                yield torch.from_numpy(np.stack([*threads.map(decoded, names[first : first + size])]))

    shape = channels, height, width
    return SampleSet(path.resolve().name, len(names), shape, sha256, read, warnings)


def _listed(root: str, suffixes: tuple[str, ...]) -> list[str]:
    """Names of the image files, in natural order: 2.png before 10.png. Raises UserError."""
    with named_where_unreadable(root):
        files = [entry.path for entry in entries_below(root) if entry.name.lower().endswith(SUFFIXES)]
    names = [name for name in (file.removeprefix(root) for file in files) if name != GRID]  # the overview of `sample`
    if other := next((name for name in names if not name.lower().endswith(suffixes)), ""):
        raise UserError(f"{root}{other}: samples are PNG files, which keep every pixel; write them as PNG")
    if not names:
        raise UserError(f"{root}: no image files ({', '.join(suffixes)}); name a folder that has some")
    return sorted(names, key=_natural)


def _natural(name: str) -> tuple[list[str | int], str]:
    parts = re.split("([0-9]+)", name)  # text and numbers in turn
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], name


def _looked_through(root: str, names: Sequence[str]) -> Arrays:
    """Shape (C, H, W), in colour if any is; hash of names and contents. Raises UserError."""
    digest = hashlib.sha256()
    with ThreadPoolExecutor(_THREADS) as threads:
        looks = [*threads.map(lambda name: _look(root + name), names)]
    (_, *size), _ = looks[0]
    for name, ((_, *own), sha256) in zip(names, looks, strict=True):
        digest.update(os.fsencode(f"{name}\0{sha256}\0"))
        if own != size:
            sizes = f"{own[1]}x{own[0]} pixels where {names[0]} has {size[1]}x{size[0]}"
            raise UserError(f"{root}{name}: {sizes}; images of a set are of one size")
    channels = max(channels for (channels, *_), _ in looks)
    return {"shape": np.array([channels, *size]), "sha256": np.frombuffer(digest.digest(), np.uint8)}


def _look(path: str) -> tuple[Shape, str]:
    """Shape (C, H, W) of an image, by its header, and the hash of its file. Raises UserError."""
    with _opened(path) as file:
        image = header(file)
        channels = 1 if is_grey(image) else 3
        check_mode(image, channels)
        if max(image.size) > MOST_SIDE:
            raise ValueError(f"{image.width}x{image.height} pixels: a side has at most {MOST_SIDE}")
        file.seek(0)
        return (channels, image.height, image.width), hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _opened(path: str) -> Iterator[BufferedReader]:
    """An image file. Raises UserError, also from the body, in place of OSError and ValueError."""
    try:
        with open_file(path, IMAGE_BYTES) as file:
            yield file
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path}: {reason}; copy it again, or take it out") from None
