"""Captions that are stored beside latents: their features, several for each sample, and the texts where there are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.core.stored.foreign import read_file
from tread_bench.data.latents.arrays import npy_array
from tread_bench.data.latents.family import LatentsData, empty_text_file

# Tensors in this project's files.
TEXT = "text"  # (K, M, E) features of the captions, sample by sample
COUNTS = "text_counts"  # (N,) captions of each sample
EMPTY_TEXT = "empty_text"  # (M, E)
CAPTIONS = "captions"  # UTF-8 of the captions, one behind the other
CAPTION_BYTES = "caption_bytes"  # (K,) length of each
_TYPES = {
    TEXT: ("F16", "F32"),
    EMPTY_TEXT: ("F16", "F32"),
    COUNTS: ("I64",),
    CAPTION_BYTES: ("I64",),
    CAPTIONS: ("U8",),
}


class CaptionStore(Protocol):
    """Captions of the samples of a store of latents."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """(N,) captions of each sample, at least one."""

    @property
    def empty_text(self) -> NDArray[np.float32]:
        """(M, E), of the empty caption. Raises UserError."""

    def text(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """(B, M, E) features of the chosen caption of each sample. Raises UserError naming file and rule."""

    def captions(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> list[str]:
        """Return the chosen captions; "" where only features are stored."""


def text_shape(choice: LatentsData) -> tuple[int, int]:
    """Tokens and width of the stored captions."""
    assert choice.text_shape is not None
    return choice.text_shape


def read_empty_text(choice: LatentsData) -> NDArray[np.float32]:
    """Return the features of the empty caption in its .npy file, (M, E). Raises UserError."""
    path = empty_text_file(choice)
    assert path is not None
    with named_where_unreadable(path):
        content = read_file(path)
    return npy_array(content, path, text_shape(choice)).astype(np.float32)


class CaptionsInTensors:
    """Captions in the safetensors files that hold the latents.

    Args:
        files: opened, as arrays and as mapped tensors.
        sizes: latents in each of them.

    Raises:
        UserError: naming file and tensor.
    """

    def __init__(self, choice: LatentsData, paths: Sequence[str], files: Sequence[Any], sizes: Sequence[int]) -> None:
        self._shape = text_shape(choice)
        self._paths = paths
        self._files = files
        found = [self._checked(*one) for one in zip(paths, files, sizes, strict=True)]
        self.counts = np.concatenate(found)
        self._firsts = [np.cumsum(counts) - counts for counts in found]  # of each sample's captions, by file
        self._ends = np.cumsum(sizes)

    def _checked(self, path: str, file: Any, size: int) -> NDArray[np.int64]:
        """Captions of each sample of a file whose tensors fit each other."""
        # Types, and shapes as far as they are known.
        names = file.keys()
        shapes = {}
        for name, types in _TYPES.items():
            if name not in names:
                raise UserError(f"{path}: no tensor {name!r}, which holds captions; set data.captions: null without")
            about = file.get_slice(name)
            if about.get_dtype() not in types:
                raise UserError(f"{path}: {name} is {about.get_dtype()}; store {' or '.join(types)}")
            shapes[name] = tuple(about.get_shape())

        # Numbers of captions, and of their bytes.
        counts, lengths = (file.get_tensor(name).numpy() for name in (COUNTS, CAPTION_BYTES))
        total = int(counts.sum()) if counts.ndim == 1 else 0
        expected = {
            COUNTS: (size,),
            TEXT: (total, *self._shape),
            EMPTY_TEXT: self._shape,
            CAPTION_BYTES: (total,),
            CAPTIONS: (int(lengths.sum()),),
        }
        for name, shape in expected.items():
            if shapes[name] != shape:
                raise UserError(f"{path}: {name} of shape {shapes[name]}; expected {shape}")
        if (counts < 1).any() or (lengths < 0).any():
            raise UserError(f"{path}: {COUNTS}: every sample needs a caption")
        return counts

    @cached_property
    def empty_text(self) -> NDArray[np.float32]:
        """(M, E), which all files have alike."""
        each = [file.get_tensor(EMPTY_TEXT).float().numpy() for file in self._files]
        for path, other in zip(self._paths, each, strict=True):
            if not np.array_equal(each[0], other):
                raise UserError(f"{path}: another {EMPTY_TEXT} than in {self._paths[0]}; encode both alike")
        found: NDArray[np.float32] = each[0]
        return found

    def text(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """(B, M, E); features that are never used are never read."""
        found = np.empty((len(rows), *self._shape), dtype=np.float32)
        for position, (file, place) in enumerate(self._places(rows, chosen)):
            found[position] = self._mapped[file][place].numpy()
        return found

    @cached_property
    def _mapped(self) -> list[Any]:
        return [file.get_tensor(TEXT) for file in self._files]

    def captions(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> list[str]:
        """Return the captions as they were encoded."""
        found = []
        for file, place in self._places(rows, chosen):
            ends = self._caption_ends[file]
            begin = int(ends[place - 1]) if place else 0
            content = self._files[file].get_slice(CAPTIONS)[begin : int(ends[place])].numpy().tobytes()
            found.append(content.decode("utf-8", "surrogatepass"))
        return found

    @cached_property
    def _caption_ends(self) -> list[NDArray[np.int64]]:
        return [np.cumsum(file.get_tensor(CAPTION_BYTES).numpy()) for file in self._files]

    def _places(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> list[tuple[int, int]]:
        """The file of each chosen caption, and its place there."""
        files = np.searchsorted(self._ends, rows, side="right")
        inside = rows - np.concatenate([[0], self._ends])[files]
        found = zip(files.tolist(), inside.tolist(), chosen.tolist(), strict=True)
        return [(file, int(self._firsts[file][row]) + caption) for file, row, caption in found]
