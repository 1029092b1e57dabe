"""What networks are conditioned on: labels or captions of samples, and what a sample without its own has instead."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.describe.families import BackboneSpec
from tread_bench.data.source import CaptionedSplit, DataSplit

HELD_OUT_SEED = 0  # of held-out captions, the same for every cell


def condition(spec: BackboneSpec, split: DataSplit, index: NDArray[np.int64], seed: int, first: int) -> Tensor | None:
    """Return the labels (B,) of a split's items `index`, or the text (B, M, E) of one caption of each, drawn by the
    seed and the sample's number, `first` ...; None for an unconditional network.
    """
    if spec.context_shape is not None:
        return cast(CaptionedSplit, split).text(index, seed, first)
    return split.labels(index) if spec.num_classes else None


def no_condition(spec: BackboneSpec, split: DataSplit) -> Tensor:
    """Return what a sample has without its condition: the label `num_classes`, or the empty caption's text (M, E)."""
    if spec.context_shape is not None:
        return cast(CaptionedSplit, split).empty_text
    return torch.tensor(spec.num_classes)


def held_out_condition(spec: BackboneSpec, held_out: DataSplit, first: int, count: int) -> Tensor | None:
    """Return the condition of held-out samples `first` ..., taken in turn; captions are the same for every cell."""
    return condition(spec, held_out, _in_turn(held_out, first, count), HELD_OUT_SEED, first)


def held_out_captions(held_out: DataSplit, first: int, count: int) -> list[str]:
    """Return the captions whose text `held_out_condition` gives."""
    return cast(CaptionedSplit, held_out).captions(_in_turn(held_out, first, count), HELD_OUT_SEED, first)


def _in_turn(split: DataSplit, first: int, count: int) -> NDArray[np.int64]:
    return np.arange(first, first + count) % len(split)
