"""Layouts with one file for each sample, in folders: REPA, EDM2 and SR-DiT; MAR, DDT and DC-AE; fast-DiT.

An epoch's order is drawn over sorted names, so what is read does not depend on the order in which a file system lists.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.data.class_folders import INDEX, class_labels, indexed_labels
from tread_bench.data.latents.arrays import WrongShapeError, npy_array
from tread_bench.data.latents.cache import remembered
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.layouts import FEATURES, LABELS
from tread_bench.data.latents.store import Store, stored_array
from tread_bench.data.latents.trees import Tree, open_tree

_INDEX_BYTES = 2**30
_HEADER_BYTES = 2**16  # at most, beside the values of a sample
_LABEL_SHAPES = ((1,), ())


# ---- what a file holds


def _decode_npy(choice: LatentsData, content: bytes, where: str, mirrored: bool) -> NDArray[np.generic]:
    return stored_array(choice, content, where)


def _decode_numbered(choice: LatentsData, content: bytes, where: str, mirrored: bool) -> NDArray[np.generic]:
    """Of a batch of one, (1, C, H, W)."""
    return stored_array(choice, content, where, (1,))[0]


def _decode_npz(choice: LatentsData, content: bytes, where: str, mirrored: bool) -> NDArray[np.generic]:
    key = "moments_flip" if mirrored else "moments"
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            about = archive.getinfo(f"{key}.npy")
            if about.file_size > len(content):
                raise UserError(f"{where}: {key} is compressed; write it with numpy.savez")
            values = archive.read(about)
    except KeyError:
        raise UserError(f"{where}: no array {key!r}; layout mar has moments and moments_flip") from None
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise UserError(f"{where}: not a readable .npz archive ({error}); copy it again") from None
    return stored_array(choice, values, f"{where}, {key}")


def _decode_pt(choice: LatentsData, content: bytes, where: str, mirrored: bool) -> NDArray[np.generic]:
    import torch

    from tread_bench.data.archives import load_tensors

    try:
        found = load_tensors(content)
    except ValueError as error:
        raise UserError(f"{where}: not a torch.save file that is safe to load ({error})") from None
    expected = (choice.channels, *choice.stored_shape[1:])
    parts = []
    for key in ("mean", "logvar"):
        value = found.get(key)
        if value is None or not value.is_floating_point():
            raise UserError(f"{where}: no tensor {key!r}; layout {choice.layout} has mean and logvar")
        if tuple(value.shape) != expected:
            shape = f"{where}: {key} of shape {tuple(value.shape)}"
            raise UserError(f"{shape} where data.channels and data.image_size request {expected}")
        parts.append(value.float())
    values: NDArray[np.generic] = torch.cat(parts).numpy()
    return values


# ---- where it is, and where its label is


class FileStore(Store):
    """Samples in files of their own, in folders or archives.

    A layout has the `suffix` of these files, `decode`: (options, content, where, whether mirrored) -> stored values of
    one sample, `is_sample`: whether a file of that name is one, and `labels_in`: labels of these files of a tree, (N,).
    """

    suffix = ".npy"
    decode: Callable[[LatentsData, bytes, str, bool], NDArray[np.generic]] = staticmethod(_decode_npy)

    def __init__(self, choice: LatentsData, paths: Sequence[str]) -> None:
        self.choice = choice
        self._trees = [open_tree(path) for path in paths]
        names: list[str] = []
        labels = []
        for tree in self._trees:
            here = [name for name in tree.names(self.suffix) if self.is_sample(name)]
            if not here:
                raise UserError(
                    f"{tree.path}: no {self.suffix} file of layout {choice.layout} in it; name the folder that has them"
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
        for place, (row, mirrored) in enumerate(zip(rows.tolist(), is_mirrored.tolist(), strict=True)):
            found[place] = self.decode(self.choice, self._content(row), self.where(row), mirrored)
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
        # At most float64 moments of both, mirrored and not, and their headers.
        most = 16 * int(np.prod(self.choice.stored_shape)) + _HEADER_BYTES
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


class InClassFolders(FileStore):
    """`.npy` files in class folders (DC-AE), numbered by the order of names; every root has the same."""

    def labels_in(self, tree: Tree, names: list[str]) -> NDArray[np.int64]:
        folders = [name.partition("/")[0] for name in names]
        if outside := [name for name in names if "/" not in name]:
            raise UserError(f"{tree.where(outside[0])}: not in a class folder, so its label is unknown")
        numbers = class_labels(folders)
        if len(numbers) != self.choice.num_classes:
            raise UserError(
                f"{tree.path}: {len(numbers)} class folders where data.num_classes is {self.choice.num_classes}; a "
                "label is the number of a folder, so every split needs files in the folder of every class"
            )
        if self.classes and self.classes != tuple(numbers):
            raise UserError(f"{tree.path}: other class folders than in the folder before; labels would not agree")
        self.classes = tuple(numbers)
        return np.array([numbers[folder] for folder in folders], dtype=np.int64)


class NpzInClassFolders(InClassFolders):
    """`.npz` files of `moments` and `moments_flip` in class folders (MAR)."""

    suffix = ".npz"
    decode = staticmethod(_decode_npz)


class PtInClassFolders(InClassFolders):
    """torch.save files of `mean` and `logvar` in class folders (DDT)."""

    suffix = ".pt"
    decode = staticmethod(_decode_pt)


class NumberedFiles(FileStore):
    """`*_features/{i}.npy` and `*_labels/{i}.npy`, paired by name (fast-DiT)."""

    decode = staticmethod(_decode_numbered)

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
