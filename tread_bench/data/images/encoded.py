"""Images as their files hold them, decoded all at once into memory, or one by one as they are needed.

A set of up to `MOST_BYTES` of decoded images, or one that is read in its order, is decoded once. Images of a larger set
are decoded for each batch anew, in the threads that prepare batches; only labels and names stay in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import BinaryIO, Protocol

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.data.captions.split import with_captions
from tread_bench.data.captions.texts import Texts
from tread_bench.data.check import message_of
from tread_bench.data.images.decode import Wanted, decode
from tread_bench.data.images.family import HELD_OUT_EVERY, ImageOptions, pixel_bytes, too_few_to_split
from tread_bench.data.source import DataSource, ImageSet, Pixels

MOST_BYTES = 2 * 2**30  # of images that are decoded into memory


class Encoded(Protocol):
    """Images of one split as their files hold them."""

    @property
    def classes(self) -> NDArray[np.int64]:
        """(N,) labels."""

    @property
    def texts(self) -> Texts | None:
        """The captions; None: there are none."""

    @property
    def sha256(self) -> str:
        """Hash of content and labels in their order."""

    @property
    def ends(self) -> Sequence[int]:
        """The images that are looked at before a run."""

    @property
    def is_in_order(self) -> bool:
        """Whether images are far cheaper to read in their order: by one thread, and all of them into memory."""

    def open(self, item: int) -> BinaryIO:
        """Read an image file. Raises ValueError with the rule."""

    def name(self, item: int) -> str:
        """Return where an image is, for messages."""


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
            pixels[place] = decoded(self.encoded, item, self.wanted)
        return torch.from_numpy(pixels)

    def problems(self) -> Iterator[str]:
        """A message for each of the images near the ends that cannot be used."""
        return end_problems(self.encoded, self.wanted)

    @cached_property
    def sha256(self) -> str:
        """Hash of the files, and of what is made of them."""
        files = self.encoded.sha256
        if self.items is not None:
            files = hashlib.sha256(files.encode() + self.items.astype("<i8").tobytes()).hexdigest()
        return hashlib.sha256(f"{self.wanted.shape} {files}".encode()).hexdigest()


def decoded(encoded: Encoded, item: int, wanted: Wanted) -> NDArray[np.uint8]:
    """Return one image, (C, H, W). Raises UserError naming it and the rule."""
    try:
        with encoded.open(item) as file:
            return decode(file, wanted)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{encoded.name(item)}: {error}") from None


def end_problems(encoded: Encoded, wanted: Wanted) -> Iterator[str]:
    """A message for each of the images near the ends that cannot be used."""
    for item in encoded.ends:
        yield from message_of(decoded, encoded, item, wanted)


def open_images(choice: ImageOptions, train: Encoded, held_out: Encoded | None) -> DataSource:
    """Both splits; without held-out images, every tenth of the others is held out.

    Raises:
        UserError: naming the image and the rule; too few images to hold some out, or too many for the memory.
    """
    # Split.
    wanted = Wanted.of(choice)
    if held_out is None:
        for problem in too_few_to_split(choice, len(train.classes)):
            raise UserError(problem)
        items = np.arange(len(train.classes))
        is_held_out = items % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
        first = OnDemand(train, wanted, items[~is_held_out])
        second = OnDemand(train, wanted, items[is_held_out])
    else:
        first = OnDemand(train, wanted)
        second = OnDemand(held_out, wanted)

    # Decode as images are needed, or all of them at once.
    source = DataSource(first, second, choice.num_classes)
    need, free = pixel_bytes(choice, len(first) + len(second)), psutil.virtual_memory().available
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


def _in_memory(split: Pixels) -> ImageSet:
    return ImageSet(split.uint8(np.arange(len(split))).numpy(), split.classes)
