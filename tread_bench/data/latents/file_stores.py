"""Layouts with one .npy file for each sample, in folders: REPA, EDM2 and SR-DiT; fast-DiT; U-ViT's MS-COCO.

An epoch's order is drawn over sorted names, so what is read does not depend on the order in which a file system lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.core.stored.foreign import read_file
from tread_bench.data.image_folder.listing import INDEX, indexed_labels
from tread_bench.data.latents.arrays import npy_array
from tread_bench.data.latents.cache import Arrays, remembered
from tread_bench.data.latents.layouts import FEATURES, LABELS
from tread_bench.data.latents.options import LatentsData, empty_text_file
from tread_bench.data.latents.store import Unit, stored_array, text_shape
from tread_bench.data.latents.trees import open_tree

_MOST_BYTES = 2**30  # of a file that is read as a whole
_HEADER_BYTES = 2**16  # at most, beside the values of a file


class NpyFiles(Unit):
    """Samples in files of their own, in a folder or an archive.

    A layout has `batch`, the shape before that of a sample, `chosen`: which of the tree's `.npy` files are samples, in
    their order, and `labels_of`: their labels, (N,).
    """

    batch: tuple[int, ...] = ()

    def __init__(self, choice: LatentsData, path: str) -> None:
        self.tree = open_tree(path)
        self.choice = choice
        self.all_names = self.tree.names(".npy")
        self.names = self.chosen(self.all_names)
        if not self.names:
            rule = f"no .npy file of layout {choice.layout} in it; name the folder that has them"
            raise UserError(f"{self.tree.path}: {rule}")
        labels = self.labels_of(self.names) if choice.num_classes else np.zeros(len(self.names), dtype=np.int64)
        super().__init__(choice, path, labels)

    def chosen(self, names: list[str]) -> list[str]:
        return names

    def labels_of(self, names: Sequence[str]) -> NDArray[np.int64]:
        raise NotImplementedError

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> Iterator[NDArray[np.generic]]:
        """(C', H, W) of each."""
        for row in rows.tolist():
            content = self.content(self.names[row], self.choice.stored_shape)
            yield stored_array(self.choice, content, self.where(row), self.batch)

    def content(self, name: str, shape: tuple[int, ...]) -> bytes:
        """Return a file of at most float64 values of that shape, and a header."""
        return self.tree.read(name, 8 * int(np.prod(shape)) + _HEADER_BYTES)

    def where(self, row: int) -> str:
        """Path of its file, or archive and name."""
        return self.tree.where(self.names[row])


class ListedFiles(NpyFiles):
    """`.npy` files whose labels are in `dataset.json`, by name (REPA, EDM2, SR-DiT)."""

    def labels_of(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Of `dataset.json`: {"labels": [[name, label], ...]}."""
        where = self.tree.where(INDEX)
        labels = indexed_labels(self.tree.read(INDEX, _MOST_BYTES), where, names)
        if labels is None:
            raise UserError(f"{where}: no labels in it; set data.num_classes: 0, or list them")
        return np.array(labels, dtype=np.int64)


class NumberedFiles(NpyFiles):
    """`*_features/{i}.npy` and `*_labels/{i}.npy`, paired by name (fast-DiT)."""

    batch = (1,)

    def chosen(self, names: list[str]) -> list[str]:
        return [name for name in names if FEATURES in name.partition("/")[0]]

    def labels_of(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Of files in the folder `*_labels` of the same names, remembered: they are as many as the samples."""
        files = [name.replace(FEATURES, LABELS, 1) for name in names]

        def read() -> Arrays:
            return {"labels": np.array([self.label(name) for name in files], dtype=np.int64)}

        return remembered(self.tree.path, files, read)["labels"]

    def label(self, name: str) -> int:
        """Return the label in a file."""
        content, where = self.content(name, (1,)), self.tree.where(name)
        return int(npy_array(content, where, (1,), ("int64", "int32"), "label")[0])


class CocoFiles(NpyFiles):
    """`{i}.npy`, the moments of image i, and `{i}_{k}.npy`, the features of its caption k (U-ViT).

    `empty_context.npy` beside the folder has the features of the empty caption.

    Source: baofff/U-ViT, scripts/extract_mscoco_feature.py and datasets.py.
    """

    def chosen(self, names: list[str]) -> list[str]:
        return sorted((name for name in names if re.fullmatch(r"\d+\.npy", name)), key=lambda name: int(name[:-4]))

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(N,) captions of each image, numbered from 0 on."""
        captions = {name for name in self.all_names if re.fullmatch(r"\d+_\d+\.npy", name)}
        counts = []
        for name in self.names:
            count = 0
            while _caption(name, count) in captions:
                count += 1
            if not count:
                where = self.tree.where(_caption(name, 0))
                raise UserError(f"{where}: no such file; captions are numbered from 0 on")
            counts.append(count)
        if len(captions) > sum(counts):
            rule = "captions of an image that is not there, or whose numbers have gaps"
            raise UserError(f"{self.tree.path}: {len(captions) - sum(counts)} files are features of {rule}")
        return np.array(counts, dtype=np.int64)

    def text(self, row: int, caption: int) -> NDArray[np.generic]:
        """(M, E)."""
        name, shape = _caption(self.names[row], caption), text_shape(self.choice)
        return npy_array(self.content(name, shape), self.tree.where(name), shape)

    @property
    def empty_text(self) -> NDArray[np.float32]:
        """(M, E), in the file beside the folder."""
        path = empty_text_file(self.choice)
        assert path is not None
        with named_where_unreadable(path):
            content = read_file(path, _MOST_BYTES)
        return npy_array(content, path, text_shape(self.choice)).astype(np.float32)


def _caption(image: str, number: int) -> str:
    return f"{image.removesuffix('.npy')}_{number}.npy"
