"""Letters of drawn characters by the nearest drawing: no network and no weights are needed."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.numbers import draws
from tread_bench.data.glyphs.fonts import FACES
from tread_bench.data.glyphs.render import draw_glyphs
from tread_bench.data.glyphs.words import caption_of
from tread_bench.measure.quality.caption_accuracy.family import CHARACTERS, CaptionAccuracyOptions
from tread_bench.measure.quality.samples import Samples


class CaptionAccuracy:
    """Compares each sample with drawings of its caption's character and of others.

    The nearest drawing has the largest correlation with the sample over the pixels, so neither contrast nor the level
    of the background matters.
    """

    def __init__(self, options: CaptionAccuracyOptions) -> None:
        pass

    def __call__(self, generated: Samples, real: Samples) -> dict[str, float]:
        # All characters of the data, and which of them a caption means.
        images = torch.cat([*generated.batches()])
        glyphs = draw_glyphs(images.shape[-1])
        pairs = zip(glyphs.faces.tolist(), glyphs.code_points.tolist(), strict=True)
        place_of = {caption_of(FACES[face], code_point): place for place, (face, code_point) in enumerate(pairs)}

        # The share whose own drawing, the first, correlates more with them than any other.
        right = 0
        for image, caption in zip(images, generated.captions, strict=True):
            place = place_of[caption]
            candidates = torch.from_numpy(glyphs.pixels[[place, *_others(glyphs.faces, place)]])
            correlation = _centred(candidates) @ _centred(image[None])[0]
            right += int((correlation >= correlation[0]).sum()) == 1
        return {"letter_accuracy": right / len(images)}


def _others(faces: NDArray[np.int64], place: int) -> NDArray[np.int64]:
    """Places of other characters of the same face, drawn for this one."""
    same = np.flatnonzero(faces == faces[place])
    others = same[same != place]
    order = draws.words(0, f"caption accuracy/{place}", 0, len(others), 1)[:, 0].argsort()
    return others[order[: CHARACTERS - 1]]


def _centred(images: Tensor) -> Tensor:
    """(n, C * H * W) float64, of mean 0 and length 1; all zero for an image of one level."""
    pixels = images.flatten(1).double()
    return torch.nn.functional.normalize(pixels - pixels.mean(1, keepdim=True), dim=1)
