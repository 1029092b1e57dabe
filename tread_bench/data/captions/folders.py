"""Captions of image files: in COCO's files, in metadata.jsonl, or from names of classes."""

from __future__ import annotations

import json
import os
from typing import Any

from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.data_paths import all_matches, named_where_unreadable
from tread_bench.core.stored.foreign import one_line, read_file
from tread_bench.data.captions.family import CLASS, METADATA, FolderCaptions
from tread_bench.data.captions.texts import Texts, captions_at
from tread_bench.data.image_folder.listing import Listing

_KEYS = 5  # of a line, in a message

Found = dict[str, list[tuple[str, object]]]  # where a caption is and what is there, by the name of the image


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
