"""Captions that are stored beside latents: their features, several for each sample, and the texts where there are."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.latents.tensors import BYTES, FLOATS, INTEGERS, TensorFile

# Tensors in this project's files.
TEXT = "text"  # (K, M, E) features of the captions, sample by sample
COUNTS = "text_counts"  # (N,) captions of each sample
EMPTY_TEXT = "empty_text"  # (M, E)
CAPTIONS = "captions"  # UTF-8 of the captions, one behind the other
CAPTION_BYTES = "caption_bytes"  # (K,) length of each


def text_shape(choice: LatentsData) -> tuple[int, int]:
    """Tokens and width of the stored captions."""
    assert choice.text_shape is not None
    return choice.text_shape


class CaptionTensors:
    """Captions in the safetensors file that holds their latents. Raises UserError naming file and tensor."""

    choice: LatentsData
    file: TensorFile
    labels: NDArray[np.int64]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(N,) captions of each sample, of a file whose tensors fit each other."""
        file = self.file
        way_out = "; captions need it: set data.captions: null without"
        file.shape(COUNTS, INTEGERS, way_out)
        file.shape(CAPTION_BYTES, INTEGERS, way_out)
        counts, lengths = (file.tensor(name).numpy() for name in (COUNTS, CAPTION_BYTES))
        total = int(counts.sum())
        expected = {
            COUNTS: (INTEGERS, self.labels.shape),
            CAPTION_BYTES: (INTEGERS, (total,)),
            TEXT: (FLOATS, (total, *text_shape(self.choice))),
            EMPTY_TEXT: (FLOATS, text_shape(self.choice)),
            CAPTIONS: (BYTES, (int(lengths.sum()),)),
        }
        for name, (types, shape) in expected.items():
            if (found := file.shape(name, types, way_out)) != shape:
                raise UserError(f"{file.path}: {name} of shape {found}; expected {shape}")
        if (counts < 1).any() or (lengths < 0).any():
            raise UserError(f"{file.path}: {COUNTS}: every sample needs a caption")
        return np.asarray(counts)

    @property
    def empty_text(self) -> NDArray[np.float32]:
        """(M, E)."""
        found: NDArray[np.float32] = self.file.tensor(EMPTY_TEXT).float().numpy()
        return found

    def text(self, row: int, caption: int) -> NDArray[np.generic]:
        """(M, E) features of one of a sample's captions."""
        found: NDArray[np.generic] = self.file.tensor(TEXT)[self._firsts[row] + caption].numpy()
        return found

    def caption(self, row: int, caption: int) -> str:
        """Return that caption as it was encoded."""
        end, size = (int(places[self._firsts[row] + caption]) for places in (self._ends, self._sizes))
        return self.file.tensor(CAPTIONS)[end - size : end].numpy().tobytes().decode("utf-8", "surrogatepass")

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        """Of each sample's captions."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.asarray(self.file.tensor(CAPTION_BYTES).numpy())

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self._sizes)
