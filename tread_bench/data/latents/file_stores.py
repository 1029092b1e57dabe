"""Layouts with one file for each sample, in folders: REPA, EDM2 and SR-DiT; fast-DiT.

An epoch's order is drawn over sorted names, so what is read does not depend on the order in which a file system lists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.data.class_folders import INDEX, indexed_labels
from tread_bench.data.latents.arrays import WrongShapeError, npy_array
from tread_bench.data.latents.cache import remembered
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.layouts import FEATURES, LABELS
from tread_bench.data.latents.store import Store, stored_array
from tread_bench.data.latents.trees import Tree, open_tree

_INDEX_BYTES = 2**30
_HEADER_BYTES = 2**16  # at most, beside the values of a sample
_LABEL_SHAPES = ((1,), ())


class FileStore(Store):
    """Samples in files of their own, in folders or archives.

    A layout has `batch`, the shape before that of a sample, `is_sample`: whether a file of that name is one, and
    `labels_in`: labels of these files of a tree, (N,).
    """

    batch: tuple[int, ...] = ()

    def __init__(self, choice: LatentsData, paths: Sequence[str]) -> None:
        self.choice = choice
        self._trees = [open_tree(path) for path in paths]
        names: list[str] = []
        labels = []
        for tree in self._trees:
            here = [name for name in tree.names(".npy") if self.is_sample(name)]
            if not here:
                raise UserError(
                    f"{tree.path}: no .npy file of layout {choice.layout} in it; name the folder that has them"
                )
            names += here
            labels.append(self.labels_in(tree, here) if choice.num_classes else np.zeros(len(here), dtype=np.int64))
        self.names = names
        super().__init__(choice, paths, labels)

    def is_sample(self, name: str) -> bool:
        return True

    def labels_in(self, tree: Tree, names: list[str]) -> NDArray[np.int64]:
        raise NotImplementedError

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(B, C', H, W) float32."""
        found = np.empty((len(rows), *self.choice.stored_shape), dtype=np.float32)
        for place, row in enumerate(rows.tolist()):
            found[place] = stored_array(self.choice, self._content(row), self.where(row), self.batch)
        return found

    def where(self, row: int) -> str:
        """Path of its file, or archive and name."""
        return self._tree(row).where(self.names[row])

    def sha256(self) -> str:
        """Hash of contents and labels in their order."""
        digest = hashlib.sha256(self.labels.astype("<i8").tobytes())
        for row in range(len(self.names)):
            digest.update(hashlib.sha256(self._content(row)).digest())
        return digest.hexdigest()

    def _tree(self, row: int) -> Tree:
        number, _ = self.place_of(row)
        return self._trees[number]

    def _content(self, row: int) -> bytes:
        # At most float64 values, and a header.
        most = 8 * int(np.prod(self.choice.stored_shape)) + _HEADER_BYTES
        return self._tree(row).read(self.names[row], most)


class ListedFiles(FileStore):
    """`.npy` files whose labels are in `dataset.json`, by name (REPA, EDM2, SR-DiT)."""

    def labels_in(self, tree: Tree, names: list[str]) -> NDArray[np.int64]:
        """Of `dataset.json`: {"labels": [[name, label], ...]}."""
        where = tree.where(INDEX)
        labels = indexed_labels(tree.read(INDEX, _INDEX_BYTES), where, names)
        if labels is None:
            raise UserError(f"{where}: no labels in it; set data.num_classes: 0, or list them")
        return np.array(labels, dtype=np.int64)


class NumberedFiles(FileStore):
    """`*_features/{i}.npy` and `*_labels/{i}.npy`, paired by name (fast-DiT)."""

    batch = (1,)

    def is_sample(self, name: str) -> bool:
        return FEATURES in name.partition("/")[0]

    def labels_in(self, tree: Tree, names: list[str]) -> NDArray[np.int64]:
        """Of files in the folder `*_labels` of the same names, remembered: they are as many as the samples."""
        files = [_label_name(name) for name in names]

        def read() -> dict[str, NDArray[np.int64]]:
            return {"labels": np.array([_label(tree, name) for name in files], dtype=np.int64)}

        return remembered(tree.path, files, read)["labels"]


def _label_name(name: str) -> str:
    folder, _, file = name.partition("/")
    return f"{folder.replace(FEATURES, LABELS)}/{file}"


def _label(tree: Tree, name: str) -> int:
    where = tree.where(name)
    content = tree.read(name, _HEADER_BYTES)
    for shape in _LABEL_SHAPES:
        try:
            return int(npy_array(content, where, shape, ("int64", "int32"), "label").reshape(()))
        except WrongShapeError as error:
            wrong = error
    raise UserError(f"{where}: label of shape {wrong.shape}; expected one number")
