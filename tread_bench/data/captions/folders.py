"""Captions of image files: in COCO's files, in metadata.jsonl, or from names of classes."""

from __future__ import annotations

import json
import os

from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.problems import shortened
from tread_bench.core.stored.data_paths import all_matches, named_where_unreadable
from tread_bench.core.stored.foreign import read_file
from tread_bench.data.captions.family import CLASS, METADATA, FolderCaptions
from tread_bench.data.captions.texts import Reading, values_at
from tread_bench.data.image_folder.listing import Listing

_KEYS = 5  # of a line, in a message

Found = dict[str, list[tuple[str, object]]]  # where a caption is and what is there, by the name of the image


class FolderReader:
    """Reads the captions of image files; COCO's files once for both splits.

    Raises:
        UserError: a file of COCO cannot be read at all.
    """

    def __init__(self, captions: FolderCaptions) -> None:
        self.captions = captions
        self._coco: Found = {}
        for path in all_matches(captions.files):
            for name, found in _coco(path).items():
                self._coco.setdefault(name, []).extend(found)

    def read(self, listing: Listing) -> Reading:
        """Return the captions of a split's images. Raises UserError where a file cannot be read."""
        reading = Reading()
        by_folder: dict[str, Found] = {}
        damaged: set[str] = set()  # folders without a list, or whose list has lines that name no image
        images = zip(listing.paths, listing.names, listing.class_of, strict=True)
        for path, name, class_name in images:
            # One caption that a template makes of the class.
            if (template := self.captions.template) is not None:
                made = [(path, template.replace(CLASS, class_name))] if class_name else []
                reading.add(made, f"{path}: in no class folder, whose name data.captions.template needs")
                continue

            # COCO's files.
            if self.captions.files:
                where = ", ".join(self.captions.files)
                reading.add(self._coco.get(name, []), f"{path}: no caption of {name} in {where}")
                continue

            # The list in the images' folder.
            folder = path.removesuffix(name)
            metadata = os.path.join(folder, METADATA)
            if folder not in by_folder:
                before = len(reading.problems)
                by_folder[folder] = self._metadata(metadata, reading)
                damaged |= {folder} if len(reading.problems) > before else set()
            listed = by_folder[folder]
            if name in listed or folder not in damaged:
                reading.add(listed.get(name, []), f"{path}: no caption of {name} in {metadata}")
        return reading

    def _metadata(self, path: str, reading: Reading) -> Found:
        """What the lines of metadata.jsonl say of images, by their names below its folder."""
        key = self.captions.column
        found: Found = {}
        if not os.path.exists(path):
            reading.problems.append(f"{path}: no such file; write one, or name COCO's files under data.captions.files")
            return found
        for number, line in enumerate(_content(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                about = json.loads(line)
            except json.JSONDecodeError as error:
                reading.problems.append(f"{where}, column {error.colno}: not JSON ({error.msg})")
                continue
            except (ValueError, RecursionError) as error:  # not UTF-8, or nested too deeply
                reading.problems.append(f"{where}: not JSON ({error})")
                continue
            name = about.get("file_name") if isinstance(about, dict) else None
            if not isinstance(name, str):
                reading.problems.append(f"{where}: no file_name, the image that it is about")
                continue
            place = f"{where}, {key}"
            if key not in about:
                place = f"{where}, set data.captions.column to one of its keys {few([*about], _KEYS)}, not to {key}"
            captions = values_at(place, about.get(key)) or [(place, about.get(key))]
            found.setdefault(os.path.normpath(name.replace("\\", "/")), []).extend(captions)
        return found


def _coco(path: str) -> Found:
    """Captions by the names of image files. Raises UserError where the file is not one of COCO's captions.

    Source: COCO's captions_train2014.json: `images` have `id` and `file_name`, `annotations` `image_id` and `caption`.
    """
    # The file as a whole.
    way_out = "name one of COCO's captions_*.json"
    content = _content(path)
    try:
        about = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error}); {way_out}") from None
    images, annotations = (about.get(key) if isinstance(about, dict) else None for key in ("images", "annotations"))
    if not isinstance(images, list) or not isinstance(annotations, list):
        raise UserError(f"{path}: no lists of images and of annotations; {way_out}")

    # Names of images.
    reading, names = Reading(), {}
    for number, image in enumerate(images):
        key, name = (image.get(key) if isinstance(image, dict) else None for key in ("id", "file_name"))
        if isinstance(key, int | str) and isinstance(name, str):
            names[key] = name
        else:
            reading.problems.append(f"{path}, images[{number}]: no id, or no file_name")

    # Captions by name.
    found: Found = {}
    for number, annotation in enumerate(annotations):
        where = f"{path}, annotations[{number}]"
        image = annotation.get("image_id") if isinstance(annotation, dict) else None
        if not isinstance(image, int | str) or image not in names:
            reading.problems.append(f"{where}: image_id {shortened(image)} is not the id of one of its images")
        else:
            found.setdefault(names[image], []).append((f"{where}, caption", annotation.get("caption")))
    reading.texts()  # raises UserError with all mistakes
    return found


def _content(path: str) -> bytes:
    with named_where_unreadable(path):
        return read_file(path)
