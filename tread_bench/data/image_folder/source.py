"""Image files in class folders. Names and labels stay in memory; see `images/encoded.py` for when files are decoded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np

from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.data_paths import all_matches, folder_name, named_where_unreadable
from tread_bench.core.stored.foreign import IMAGE_BYTES, one_line, open_file, read_file
from tread_bench.data.captions.family import CLASS, METADATA, FolderCaptions
from tread_bench.data.captions.texts import Texts, captions_at
from tread_bench.data.image_folder.family import ImageFolderData
from tread_bench.data.image_folder.listing import INDEX, SUFFIXES, Listing, are_numbers, listed

_NAMED = 3  # folders, classes or images in a message
_KEYS = 5  # of a line in metadata.jsonl

Found = dict[str, list[tuple[str, object]]]  # where a caption is and what is there, by the name of the image


def folder_splits(choice: ImageFolderData) -> tuple[FolderImages, FolderImages | None]:
    """Training and held-out images with labels or captions. Raises UserError naming the file or folder and the rule."""
    # Files, and the names of their classes where they are needed.
    reads_labels = bool(choice.num_classes or (choice.captions and choice.captions.template))
    train = listed(choice.train, reads_labels)
    held_out = listed(choice.held_out, reads_labels) if choice.held_out else None
    splits = [train] if held_out is None else [train, held_out]

    # Images, which all have a class where there are classes.
    for split in splits:
        where = _names(split.folders)
        if not split.paths:
            raise UserError(f"{where}: no image files ({', '.join(SUFFIXES)}); name a folder that has some")
        if choice.num_classes and not split.classes:
            raise UserError(
                f"{where}: no class folders, and data.num_classes is {choice.num_classes}: put the images of each "
                f"class into a folder of its own, their labels into {INDEX}, or set data.num_classes: 0"
            )
        if choice.num_classes and not all(split.class_of):
            loose = [path for path, name in zip(split.paths, split.class_of, strict=True) if not name]
            raise UserError(f"{_names(loose)}: in no class folder; move them into one, or set data.num_classes: 0")
    classes = _checked_classes(choice, train, held_out) if choice.num_classes else {}

    # Captions.
    texts = [None] * len(splits) if choice.captions is None else folder_texts(choice.captions, *splits)
    images = [FolderImages(split, classes, captions) for split, captions in zip(splits, texts, strict=True)]
    return images[0], images[1] if held_out is not None else None


def _checked_classes(choice: ImageFolderData, train: Listing, held_out: Listing | None) -> dict[str, int]:
    """Labels by the names of classes. Raises UserError where they are not those of the suite."""
    classes = train.classes
    found = max(classes.values()) + 1
    if are_numbers(classes) and found > choice.num_classes:
        raise UserError(
            f"{_names(train.folders)}: classes {_names([*classes])} are whole numbers, which are their labels, and "
            f"data.num_classes {choice.num_classes} allows 0 to {choice.num_classes - 1}: set data.num_classes: "
            f"{found}, or give the folders other names, such as class-{next(iter(classes))}"
        )
    if found != choice.num_classes and not are_numbers(classes):
        raise UserError(
            f"{_names(train.folders)}: {found} class folders ({_names([*classes])}) where data.num_classes is "
            f"{choice.num_classes}: set data.num_classes: {found}, or 0 for none, or name another folder"
        )
    if held_out and (others := sorted(held_out.classes.keys() - classes.keys())):
        raise UserError(
            f"{_names(held_out.folders)}: class folders {_names(others)}, which the training images lack; "
            "name them as there, or take them out"
        )
    return classes


def _names(names: list[str]) -> str:
    return few(names, _NAMED)


class FolderImages:
    """Image files with the classes of their folders.

    Args:
        classes: labels by the names of classes. Images in no class have label 0.
        texts: the captions; None: there are none.
    """

    is_in_order = False  # none is cheaper to read behind another

    def __init__(self, listing: Listing, classes: Mapping[str, int], texts: Texts | None = None) -> None:
        self._listing = listing
        self.texts = texts
        self.classes = np.array([classes.get(name, 0) for name in listing.class_of], dtype=np.int64)

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


def folder_texts(captions: FolderCaptions, *splits: Listing) -> list[Texts]:
    """Return the captions of each split's images. Raises UserError naming image or file, place and rule."""
    # COCO's files are of all splits; a list in a folder is read with its first image.
    by_folder: dict[str, Found] = {}
    coco: Found = {}
    for file in all_matches(captions.files):
        for name, found in _coco(file).items():
            coco.setdefault(name, []).extend(found)

    texts = []
    for split in splits:
        each = []
        for path, name, class_name in zip(split.paths, split.names, split.class_of, strict=True):
            # One caption that a template makes of the class.
            if captions.template is not None:
                if not class_name:
                    raise UserError(f"{path}: in no class folder, whose name data.captions.template needs")
                each.append([captions.template.replace(CLASS, class_name)])
                continue

            # Those that are stored under the image's name.
            folder = path.removesuffix(name)
            metadata = os.path.join(folder, METADATA)
            if not captions.files and folder not in by_folder:
                by_folder[folder] = _metadata(metadata, captions.column)
            stored = coco if captions.files else by_folder[folder]
            if name not in stored:
                raise UserError(f"{path}: no caption of {name} in {', '.join(captions.files) or metadata}")
            each.append([caption for where, value in stored[name] for caption in captions_at(where, value)])
        texts.append(Texts(each))
    return texts


def _metadata(path: str, key: str) -> Found:
    """What the lines of metadata.jsonl say of images, by their names below its folder. Raises UserError."""
    if not os.path.exists(path):
        raise UserError(f"{path}: no such file; write one, or name COCO's files under data.captions.files")
    found: Found = {}
    for number, line in enumerate(_content(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        about = _parsed(line, where)
        name = about.get("file_name") if isinstance(about, dict) else None
        if not isinstance(name, str):
            raise UserError(f"{where}: no file_name, the image that it is about")
        if key not in about:
            raise UserError(f"{where}: no {key}; set data.captions.column to one of its keys {few([*about], _KEYS)}")
        found.setdefault(os.path.normpath(name.replace("\\", "/")), []).append((f"{where}, {key}", about[key]))
    return found


def _coco(path: str) -> Found:
    """Captions by the names of image files. Raises UserError where the file is not one of COCO's captions.

    Source: COCO's captions_train2014.json: `images` have `id` and `file_name`, `annotations` `image_id` and `caption`.
    """
    about = _parsed(_content(path), path)
    found: Found = {}
    try:
        names = {image["id"]: str(image["file_name"]) for image in about["images"]}
        for number, annotation in enumerate(about["annotations"]):
            caption = (f"{path}, annotations[{number}], caption", annotation["caption"])
            found.setdefault(names[annotation["image_id"]], []).append(caption)
    except (KeyError, TypeError) as error:
        rule = "images with id and file_name, and annotations with the image_id of one of them and caption"
        raise UserError(f"{path}: not {rule} ({one_line(error)}); name one of COCO's captions_*.json") from None
    return found


def _parsed(content: bytes, where: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:  # also not UTF-8, or nested too deeply
        raise UserError(f"{where}: not JSON ({error}); write it again") from None


def _content(path: str) -> bytes:
    with named_where_unreadable(path):
        return read_file(path)
