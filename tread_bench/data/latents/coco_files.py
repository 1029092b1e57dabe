"""MS-COCO as U-ViT prepares it: moments of each image, and features of each of its captions, in files of their own.

Source: baofff/U-ViT, scripts/extract_mscoco_feature.py and datasets.py: `train/{i}.npy` is the moments of image i,
`train/{i}_{k}.npy` the features of its caption k, and `empty_context.npy`, beside `train` and `val`, those of the empty
caption. `run_vis`, beside them, holds pickles, which can run any code: it is not read.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.data_paths import folder_name
from tread_bench.data.latents.arrays import npy_array
from tread_bench.data.latents.captions import CaptionStore, read_empty_text, text_shape
from tread_bench.data.latents.family import LatentsData, beside, empty_text_file
from tread_bench.data.latents.store import Store, stored_array
from tread_bench.data.latents.trees import Tree, open_tree

log = logging.getLogger(__name__)

_PICKLES = "run_vis"
_NAME = re.compile(r"(\d+)(?:_(\d+))?\.npy")
_MOST_BYTES = 2**26  # of a file


class CocoFiles(Store):
    """Images by number, in one folder or several. Raises UserError naming file and rule."""

    def __init__(self, choice: LatentsData, paths: Sequence[str]) -> None:
        self._trees = [open_tree(path) for path in paths]
        self._images: list[int] = []
        counts: list[int] = []
        sizes = []
        for path, tree in zip(paths, self._trees, strict=True):
            found = _captions_by_image(tree)
            self._images += found.keys()
            counts += found.values()
            sizes.append(len(found))
            _say_what_is_skipped(beside(path, _PICKLES))
        self.counts: NDArray[np.int64] = np.array(counts, dtype=np.int64)
        super().__init__(choice, paths, [np.zeros(size, dtype=np.int64) for size in sizes])

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(B, 2C, H, W) float32."""
        found = np.empty((len(rows), *self.choice.stored_shape), dtype=np.float32)
        for position, row in enumerate(rows.tolist()):
            tree, name = self._file(row)
            found[position] = stored_array(self.choice, tree.read(name, _MOST_BYTES), tree.where(name))
        return found

    def where(self, row: int) -> str:
        """Path of the image's moments."""
        tree, name = self._file(row)
        return tree.where(name)

    def sha256(self) -> str:
        """Hash of the folders' files, and of the empty caption's features."""
        files = [path if os.path.isfile(path) else folder_name(path) for path in self.paths]
        files += filter(None, [empty_text_file(self.choice)])
        return hashlib.sha256(" ".join(map(content_sha256, files)).encode()).hexdigest()

    def _file(self, row: int, caption: int | None = None) -> tuple[Tree, str]:
        """The folder or archive, and the name of a file in it."""
        tree = self._trees[self.place_of(row)[0]]
        return tree, f"{self._images[row]}.npy" if caption is None else f"{self._images[row]}_{caption}.npy"

    # ---- captions

    @property
    def captioned(self) -> CaptionStore:
        """In the same folders."""
        return self

    @cached_property
    def empty_text(self) -> NDArray[np.float32]:
        return read_empty_text(self.choice)

    def text(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """(B, M, E)."""
        shape = text_shape(self.choice)
        found = np.empty((len(rows), *shape), dtype=np.float32)
        for position, (row, caption) in enumerate(zip(rows.tolist(), chosen.tolist(), strict=True)):
            tree, name = self._file(row, caption)
            found[position] = npy_array(tree.read(name, _MOST_BYTES), tree.where(name), shape)
        return found

    def captions(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> list[str]:
        """Return empty texts: only features are stored."""
        return ["" for _ in rows]


@cache
def _say_what_is_skipped(folder: str) -> None:
    """Log, once, that a folder of pickles is not read."""
    if os.path.isdir(folder):
        log.warning("%s holds pickles, which can run any code; it is not read", folder)


def _captions_by_image(tree: Tree) -> dict[int, int]:
    """Number of captions by number of image, in the order of images. Raises UserError."""
    # Names.
    images: set[int] = set()
    captions: dict[int, set[int]] = {}
    for name in tree.names(".npy"):
        if (match := _NAME.fullmatch(name)) is None:
            continue
        if match[2] is None:
            images.add(int(match[1]))
        else:
            captions.setdefault(int(match[1]), set()).add(int(match[2]))
    if not images:
        raise UserError(
            f"{tree.path}: no file such as 0.npy of layout u-vit-coco in it; name the folder that has them, such as "
            "coco256_features/train"
        )

    # Every image has its captions, numbered from 0 on.
    for number in sorted(images | captions.keys()):
        numbers = captions.get(number, set())
        if number not in images:
            raise UserError(f"{tree.where(f'{number}.npy')}: no such file, and there are features of its captions")
        if numbers != set(range(len(numbers))) or not numbers:
            missing = next(caption for caption in range(len(numbers) + 1) if caption not in numbers)
            raise UserError(f"{tree.where(f'{number}_{missing}.npy')}: no such file; captions are numbered from 0 on")
    return {number: len(captions[number]) for number in sorted(images)}
