"""Image files in class folders. Names and labels stay in memory; see `images/encoded.py` for when files are decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import BinaryIO

import numpy as np

from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.data_paths import all_matches, folder_name
from tread_bench.core.stored.foreign import IMAGE_BYTES, open_file
from tread_bench.data.captions.folders import FolderReader
from tread_bench.data.captions.texts import Texts
from tread_bench.data.check import absent_classes, message_of
from tread_bench.data.class_folders import INDEX, are_numbers
from tread_bench.data.image_folder.family import ImageFolderData
from tread_bench.data.image_folder.listing import SUFFIXES, Listing, listed
from tread_bench.data.images.decode import Wanted
from tread_bench.data.images.encoded import end_problems, open_images
from tread_bench.data.images.family import too_few_to_split
from tread_bench.data.images.headers import header_problems
from tread_bench.data.source import DataSource

_NAMED = 3  # folders, classes or images in a message


def open_splits(choice: ImageFolderData) -> DataSource:
    """Both splits. Raises UserError naming the file or folder and the rule."""
    # Names of files and folders.
    train = listed(choice.train, _reads_labels(choice))
    held_out = listed(choice.held_out, _reads_labels(choice)) if choice.held_out else None
    for problem in _problems(choice, train, held_out):
        raise UserError(problem)

    # Images with their labels or captions.
    classes = train.classes if choice.num_classes else {}
    (texts, held_out_texts), wrong = _read_captions(choice, train, held_out)
    if wrong:
        raise UserError("\n".join(wrong))
    held_out_images = None if held_out is None else FolderImages(held_out, classes, held_out_texts)
    return open_images(choice, FolderImages(train, classes, texts), held_out_images)


def _read_captions(choice: ImageFolderData, *splits: Listing | None) -> tuple[list[Texts | None], list[str]]:
    """The captions of each split, None where there are none, and a message for each mistake in them."""
    if choice.captions is None:
        return [None for _ in splits], []
    reader = FolderReader(choice.captions)
    readings = [None if split is None else reader.read(split) for split in splits]
    problems = [message for reading in readings if reading is not None for message in reading.reported()]
    return [None if reading is None else Texts(reading.each) for reading in readings], problems


class FolderImages:
    """Image files with the classes of their folders.

    Args:
        classes: labels by the names of classes. Images in no class have label 0.
        texts: the captions; None: there are none.
    """

    def __init__(self, listing: Listing, classes: Mapping[str, int], texts: Texts | None = None) -> None:
        self._listing = listing
        self.texts = texts
        self.classes = np.array([classes.get(name, 0) for name in listing.class_of], dtype=np.int64)

    is_in_order = False

    @property
    def ends(self) -> list[int]:
        """The first and the last image."""
        return sorted({0, len(self.classes) - 1})

    @cached_property
    def sha256(self) -> str:
        """Hash of the names and contents of the files, and of the labels."""
        digest = hashlib.sha256(self.classes.astype("<i8").tobytes())
        for folder in self._listing.folders:
            digest.update(content_sha256(folder_name(folder)).encode())
        return digest.hexdigest()

    def open(self, item: int) -> BinaryIO:
        """Read an image file. Raises ValueError."""
        try:
            return open_file(self._listing.paths[item], IMAGE_BYTES)
        except OSError as error:
            raise ValueError(f"cannot be read ({error.strerror})") from None

    def name(self, item: int) -> str:
        """Return an image's path."""
        return self._listing.paths[item]


def file_problems(choice: ImageFolderData, generates: bool) -> Iterator[str]:
    """A message for each mistake in folders and labels, and for the first and last image if it cannot be used."""
    # Folders.
    train, wrong = _listed_or_wrong(choice, choice.train)
    held_out, wrong_too = _listed_or_wrong(choice, choice.held_out)
    yield from (*wrong, *wrong_too, *_problems(choice, train, held_out))

    # Labels, and how many there are.
    if train is not None:
        if generates and choice.num_classes and are_numbers(train.classes):
            yield from absent_classes(FolderImages(train, train.classes).classes, choice.num_classes)
        yield from too_few_to_split(choice, len(train.paths))

    # Captions.
    try:
        yield from _read_captions(choice, train, held_out)[1]
    except UserError as error:
        yield str(error)

    # Images.
    for split in filter(None, (train, held_out)):
        if split.paths:
            yield from end_problems(FolderImages(split, {}), Wanted.of(choice))


def _reads_labels(choice: ImageFolderData) -> bool:
    """Whether the names of classes are needed."""
    return bool(choice.num_classes or (choice.captions and choice.captions.template))


def _listed_or_wrong(choice: ImageFolderData, entries: tuple[str, ...]) -> tuple[Listing | None, list[str]]:
    """A split, None where there is none, and a message for each folder that cannot be listed."""
    reads_labels = _reads_labels(choice)
    try:
        return listed(entries, reads_labels) if entries else None, []
    except UserError:
        folders = all_matches(entries)
        return None, [message for folder in folders for message in message_of(listed, (folder,), reads_labels)]


def image_problems(choice: ImageFolderData, generates: bool) -> Iterator[str]:
    """A message for each image that cannot be used, by its header; see `header_problems`."""
    for entries in (choice.train, choice.held_out):
        with suppress(UserError):  # which `file_problems` reports
            split = listed(entries)
            yield from header_problems(FolderImages(split, {}), _names(split.folders), Wanted.of(choice))


def _problems(choice: ImageFolderData, train: Listing | None, held_out: Listing | None) -> Iterator[str]:
    """A message for each mistake in the names of files and folders."""
    # Of each split.
    for split in filter(None, (train, held_out)):
        yield from _split_problems(choice, split)

    # Class folders.
    if train is None or not choice.num_classes or not train.classes:
        return
    classes = train.classes
    found = max(classes.values()) + 1
    if are_numbers(classes) and found > choice.num_classes:
        yield (
            f"{_names(train.folders)}: classes {_names([*classes])} are whole numbers, which are their labels, and "
            f"data.num_classes {choice.num_classes} allows 0 to {choice.num_classes - 1}: set data.num_classes: "
            f"{found}, or give the folders other names, such as class-{next(iter(classes))}"
        )
    elif found != choice.num_classes and not are_numbers(classes):
        yield (
            f"{_names(train.folders)}: {found} class folders ({_names([*classes])}) where data.num_classes is "
            f"{choice.num_classes}: set data.num_classes: {found}, or 0 for none, or name another folder"
        )
    if held_out and (others := sorted(held_out.classes.keys() - classes.keys())):
        yield (
            f"{_names(held_out.folders)}: class folders {_names(others)}, which the training images lack; "
            "name them as there, or take them out"
        )


def _split_problems(choice: ImageFolderData, split: Listing) -> Iterator[str]:
    where = _names(split.folders)
    if not split.paths:
        yield f"{where}: no image files ({', '.join(SUFFIXES)}); name a folder that has some"
    elif choice.num_classes and not split.classes:
        yield (
            f"{where}: no class folders, and data.num_classes is {choice.num_classes}: put the images of each class "
            f"into a folder of its own, their labels into {INDEX}, or set data.num_classes: 0"
        )
    elif choice.num_classes and not all(split.class_of):
        loose = [path for path, name in zip(split.paths, split.class_of, strict=True) if not name]
        yield f"{_names(loose)}: in no class folder; move them into one, or set data.num_classes: 0"


def _names(names: list[str]) -> str:
    return few(names, _NAMED)
