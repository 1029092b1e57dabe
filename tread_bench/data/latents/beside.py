"""The images that latents were encoded from, in a folder beside theirs, for losses that see images (REPA).

A latent and its image have the same folder and name, apart from suffixes; in REPA's layout
`00000/img-mean-std-00000000.npy` and `00000/img00000000.png`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.data.images.decode import Wanted, decode
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.latents.trees import open_tree

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_MOST_BYTES = 2**26  # of an image file
_NUMBERED = re.compile(r"img(?:-mean-std-|-)?(\d+)")


class ImagesBeside:
    """Images in the order of the latents.

    Args:
        names: of the latents' files.

    Raises:
        UserError: a latent has no image, or several.
    """

    def __init__(self, choice: LatentsData, names: Sequence[str]) -> None:
        assert choice.train_images is not None
        self._tree = open_tree(choice.train_images)
        self._wanted = Wanted(
            choice.decoded_size, 3, enlarge=False, key="data.decoded_size", way_out="give the images that were encoded"
        )
        by_key: dict[str, str] = {}
        for name in self._tree.names(""):
            if not name.lower().endswith(_SUFFIXES):
                continue
            other = by_key.setdefault(_key(name), name)
            if other != name:
                raise UserError(f"{self._tree.path}: {other} and {name} are images of one latent; keep one")
        try:
            self._names = [by_key[_key(name)] for name in names]
        except KeyError as error:
            name = next(name for name in names if _key(name) == error.args[0])
            raise UserError(
                f"{self._tree.path}: no image of latent {name}; data.train_images needs one of each"
            ) from None

    def read(self, index: NDArray[np.int64]) -> NDArray[np.uint8]:
        """(B, 3, S, S) uint8, the centre of each image. Raises UserError naming the image."""
        return np.stack([self._decoded(self._names[item]) for item in index.tolist()])

    def _decoded(self, name: str) -> NDArray[np.uint8]:
        try:
            return decode(io.BytesIO(self._tree.read(name, _MOST_BYTES)), self._wanted)
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"{self._tree.where(name)}: {error}") from None


def _key(name: str) -> str:
    """What the names of a latent and of its image have in common."""
    folder, _, file = name.rpartition("/")
    stem = file.partition(".")[0]
    numbered = _NUMBERED.fullmatch(stem)
    return f"{folder}/{numbered[1] if numbered else stem}"
