"""Image files below folders, and which class the files of a folder have: one rule for images and latents."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from pydantic_core import from_json

from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.problems import shortened
from tread_bench.core.stored.data_paths import all_matches, entries_below, named_where_unreadable
from tread_bench.core.stored.foreign import read_file

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
INDEX = "dataset.json"  # labels by name, of EDM's dataset_tool.py and of REPA
_SHOWN = 3

# Folders that split a set into parts: `00001/img00001234.png` of EDM's dataset_tool.py, `00001/000010234.jpg` of
# img2dataset, `001000/001234.png` of EDM's generate.py and of FFHQ.
_PART = re.compile(r"(\d{5})/(?:img)?\1\d{3,4}\.\w+|(\d{2,})000/\2\d{3}\.\w+")
_SPLIT = re.compile(r"(train(ing)?|val(id|idation)?|dev|test(ing)?)(\d{4})?", re.IGNORECASE)


@dataclass(frozen=True)
class Listing:
    """Image files of one split, folder by folder, by names.

    Args:
        folders: of the split.
        paths: of the image files.
        names: of the image files, below their folder.
        class_of: for each of them, the name of its class; "" where it has none.
    """

    folders: list[str]
    paths: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    class_of: list[str] = field(default_factory=list)

    @property
    def classes(self) -> dict[str, int]:
        """Label of each class, by its name. Raises UserError; see `class_labels`."""
        return class_labels(filter(None, self.class_of))


def listed(entries: Sequence[str], reads_labels: bool = False) -> Listing:
    """List the image files in folders and below; links are followed.

    Args:
        reads_labels: whether labels in a `dataset.json` are read; without them such images have no class.

    Raises:
        UserError: a folder does not exist, cannot be read, or holds the splits of a data set; or its `dataset.json`
            has no usable labels.
    """
    found = Listing(all_matches(entries))
    for folder in found.folders:
        if not os.path.isdir(folder):
            wrong = "not a folder" if os.path.exists(folder) else "no such folder"
            unpack = "; unpack it" if os.path.isfile(folder) and folder.lower().endswith(".zip") else ""
            raise UserError(f"{folder}: {wrong}{unpack}; name one that has images in it or below")
        with named_where_unreadable(folder):
            root = os.path.join(folder, "")
            paths = [entry.path for entry in entries_below(root) if entry.name.lower().endswith(SUFFIXES)]
        names = [path.removeprefix(root) for path in paths]
        found.paths.extend(paths)
        found.names.extend(names)
        found.class_of.extend(class_names(folder, names, reads_labels))
    return found


def class_names(root: str, names: Sequence[str], reads_labels: bool = True) -> list[str]:
    """Return the class of each file by its name: its label in `dataset.json` or, without that file, the folder in
    `root` that it is in; "" where it has none.

    Folders that only split a set into parts, such as those of a thousand seeds, are no classes.

    Args:
        root: a folder.
        names: of files in it and below, relative to it.
        reads_labels: whether `dataset.json` is read; without it its files have no class.

    Raises:
        UserError: `dataset.json` has no usable labels; the folders are splits of a data set.
    """
    # Labels in a file.
    index = os.path.join(root, INDEX)
    parts = [name.replace(os.sep, "/") for name in names]
    if os.path.lexists(index):
        labels = None
        if reads_labels:
            with named_where_unreadable(index):
                labels = indexed_labels(read_file(index), index, parts)
        return [""] * len(names) if labels is None else [str(label) for label in labels]

    # Folders.
    if all(_PART.fullmatch(part) for part in parts):
        return [""] * len(names)
    folders = [part.partition("/")[0] if "/" in part else "" for part in parts]
    splits = sorted(folder for folder in set(folders) if _SPLIT.fullmatch(folder))
    trained = [split for split in splits if split.lower().startswith("train")]
    if trained and len(splits) > len(trained):
        raise UserError(
            f"{root}: {few(splits, _SHOWN)} in it are splits of a data set, not classes; name one of them, such as "
            f"{os.path.join(root, trained[0])}"
        )
    return folders


def class_labels(names: Iterable[str]) -> dict[str, int]:
    """Return the label of each class by its name, in the order of labels.

    Where all names are whole numbers, the label is the number; else the place of the name among the sorted names.

    Raises:
        UserError: two names are the same number.
    """
    found = sorted(set(names))
    if not are_numbers(found):
        return {name: place for place, name in enumerate(found)}
    by_number = {int(name): name for name in found}
    if twins := sorted(set(found) - set(by_number.values())):
        raise UserError(f"class folder {twins[0]} has the same number as another; name every class one way")
    return {by_number[label]: label for label in sorted(by_number)}


def are_numbers(names: Collection[str]) -> bool:
    """Return whether class names are whole numbers, which are their labels."""
    return bool(names) and all(re.fullmatch("[0-9]{1,9}", name) for name in names)


def indexed_labels(content: bytes, where: str, names: Iterable[str]) -> list[int] | None:
    """Return the label of each named file in the content of a `dataset.json`; None where it says that there are none.

    Labels are whole numbers, or rows with a single 1 among zeros.

    Raises:
        UserError: it is not such a file, or a label is missing or of another kind.

    Source: Karras et al. 2022, EDM, dataset_tool.py: {"labels": [[name, label], ...]}, or null.
    """
    # The labels as written, by name.
    try:
        listed = from_json(content)["labels"]
        by_name = None if listed is None else {str(name): label for name, label in listed}
    except (ValueError, TypeError, KeyError):
        raise UserError(f'{where}: not {{"labels": a list of [name, number]}} in JSON; write it again') from None
    if by_name is None:
        return None

    # Those of the files, as numbers.
    labels = []
    for name in names:
        if name not in by_name:
            raise UserError(f"{where}: no label of {name}; list every file in the folder, or remove {INDEX}")
        label = by_name[name]
        if isinstance(label, list) and label.count(0) == len(label) - 1 and label.count(1) == 1:
            label = label.index(1)
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < 10**9:
            rule = "labels are whole numbers from 0, or rows with a single 1 among zeros"
            raise UserError(f"{where}: label {shortened(label)} of {name}; {rule}")
        labels.append(label)
    return labels
