"""Images as their files hold them, decoded all at once into memory, or one by one as they are needed.

A set of up to `MOST_BYTES` of decoded images, or one that is read in its order, is decoded once. Images of a larger set
are decoded for each batch anew, by the processes that prepare batches; only labels and names stay in memory.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.data_paths import all_matches
from tread_bench.data.captions.features import with_captions
from tread_bench.data.captions.texts import Texts
from tread_bench.data.check import absent_classes, message_of
from tread_bench.data.images.decode import Wanted, decode, is_turned, opened, turned
from tread_bench.data.images.family import HELD_OUT_EVERY
from tread_bench.data.source import DataSource, ImageSet, Pixels

if TYPE_CHECKING:
    from tread_bench.data.image_folder.source import FolderImages
    from tread_bench.data.images.table import TableImages

    Encoded = FolderImages | TableImages  # images of one split as their files hold them

log = logging.getLogger(__name__)

MOST_BYTES = 2 * 2**30  # of images that are decoded into memory
_LABEL_BYTES = 8
_THREADS = 16  # that read headers, and wait for files most of the time
_AT_A_TIME = 256  # images for a thread
_SHOWN = 3  # images or folders in a message


class OnDemand(Pixels):
    """Images of one split, each read and decoded when it is needed.

    Args:
        items: places of the split's images among the encoded ones; None: all of them.

    Raises:
        UserError: from its methods, naming the image and the rule.
    """

    def __init__(self, encoded: Encoded, wanted: Wanted, items: NDArray[np.int64] | None = None) -> None:
        self.encoded = encoded
        self.wanted = wanted
        self.items = items
        self.classes = encoded.classes if items is None else encoded.classes[items]

    @property
    def shape(self) -> tuple[int, ...]:
        """(C, H, W)."""
        return self.wanted.shape

    @property
    def texts(self) -> Texts | None:
        """The captions of the split's images, if they have some."""
        texts = self.encoded.texts
        return texts if texts is None or self.items is None else texts.of(self.items)

    def uint8(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) uint8, as the feature networks take them."""
        pixels = np.empty((len(index), *self.shape), dtype=np.uint8)
        items = index if self.items is None else self.items[index]
        for place, item in enumerate(items.tolist()):
            try:
                with self.encoded.open(item) as file:
                    pixels[place] = decode(file, self.wanted)
            except UserError:
                raise
            except ValueError as error:
                raise UserError(f"{self.encoded.name(item)}: {error}") from None
        return torch.from_numpy(pixels)

    def problems(self) -> Iterator[str]:
        """A message for each of the images near the ends that cannot be used."""
        for item in self.encoded.ends:
            yield from message_of(self.uint8, np.array([item]))

    @cached_property
    def sha256(self) -> str:
        """Hash of the files, and of what is made of them."""
        files = self.encoded.sha256
        if self.items is not None:
            files = hashlib.sha256(files.encode() + self.items.astype("<i8").tobytes()).hexdigest()
        return hashlib.sha256(f"{self.wanted.shape} {files}".encode()).hexdigest()


def open_splits(choice: Any) -> DataSource:
    """Both splits; without held-out images, every tenth of the others is held out.

    Raises:
        UserError: naming the image and the rule; too few images to hold some out, or too many for the memory.
    """
    # Split.
    train, held_out = _splits(choice)
    wanted = Wanted.of(choice)
    if held_out is None:
        items = np.arange(len(train.classes))
        is_held_out = items % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
        first = OnDemand(train, wanted, items[~is_held_out])
        second = OnDemand(train, wanted, items[is_held_out])
    else:
        first = OnDemand(train, wanted)
        second = OnDemand(held_out, wanted)

    # Decode as images are needed, or all of them at once.
    source = DataSource(first, second, choice.num_classes)
    need = (len(first) + len(second)) * (choice.channels * choice.image_size**2 + _LABEL_BYTES)
    free = psutil.virtual_memory().available
    if train.is_in_order and need > free:
        raise UserError(
            f"data {choice.name}: {len(first) + len(second):,} decoded images need {need / 2**30:,.1f} GiB of memory, "
            f"and {free / 2**30:,.1f} GiB are free. Save them as a data set of Hugging Face (data hf_dataset) or as "
            "files (data image_folder), which are read as they are needed"
        )
    if train.is_in_order or need <= MOST_BYTES:
        source = DataSource(_in_memory(first), _in_memory(second), choice.num_classes)

    # Captions.
    return with_captions(choice.captions, source, [split.texts for split in (first, second)])


def _splits(choice: Any) -> tuple[Encoded, Encoded | None]:
    """Training and held-out images; None: of the first, every tenth is held out. Raises UserError."""
    train, held_out = named(choice.splits)(choice)
    if held_out is None and len(train.classes) < HELD_OUT_EVERY:
        raise UserError(
            f"{few(all_matches(choice.train), _SHOWN)}: {len(train.classes)} images, where every tenth is held out: "
            "name others under data.held_out"
        )
    return train, held_out


def _in_memory(split: Pixels) -> ImageSet:
    return ImageSet(split.uint8(np.arange(len(split))).numpy(), split.classes)


def file_problems(choice: Any, generates: bool) -> Iterator[str]:
    """The first mistake in files, labels and captions, classes without an image, and images at the ends that cannot be
    used.
    """
    try:
        train, held_out = _splits(choice)
    except UserError as error:
        yield str(error)
        return
    if generates:
        yield from absent_classes(train.classes, choice.num_classes)
    for split in (train, held_out):
        if split is not None:
            yield from OnDemand(split, Wanted.of(choice)).problems()


def image_problems(choice: Any, generates: bool) -> Iterator[str]:
    """A message for each of the first three images that cannot be used by their headers, and one that counts all.

    Warns of images that EXIF alone turns.
    """
    try:
        splits = _splits(choice)
    except UserError:
        return  # which `file_problems` reports
    wanted = Wanted.of(choice)
    for encoded, entries in zip(splits, (choice.train, choice.held_out), strict=True):
        if encoded is None:
            continue

        # The headers of all images, many at a time.
        count = len(encoded.classes)
        parts = [range(first, min(first + _AT_A_TIME, count)) for first in range(0, count, _AT_A_TIME)]
        with ThreadPoolExecutor(1 if encoded.is_in_order else _THREADS) as pool:
            looks = [*pool.map(partial(_look, encoded, wanted), parts)]  # read here, so that Ctrl-C ends it
        wrong, by_exif = [], 0
        for problems, turns in looks:
            wrong += problems
            by_exif += turns

        # The first of what was found.
        where = few(all_matches(entries), _SHOWN)
        yield from wrong[:_SHOWN]
        if len(wrong) > _SHOWN:
            yield f"{where}: {len(wrong):,} of {count:,} images cannot be used; the first {_SHOWN} are named"
        if by_exif:
            log.warning(turned(where, by_exif, count))


def _look(encoded: Encoded, wanted: Wanted, items: range) -> tuple[list[str], int]:
    """A message for each of these images that cannot be used by its header; how many of them EXIF alone turns."""
    wrong, by_exif = [], 0
    for item in items:
        try:
            with encoded.open(item) as file:
                by_exif += is_turned(opened(file, wanted))
        except UserError:
            raise
        except ValueError as error:
            wrong.append(f"{encoded.name(item)}: {error}")
    return wrong, by_exif
