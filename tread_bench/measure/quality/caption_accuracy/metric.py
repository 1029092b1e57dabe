"""Letter and style of drawn characters by the nearest drawing: no network and no weights are needed."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.numbers import draws
from tread_bench.data.glyphs.fonts import FACES
from tread_bench.data.glyphs.render import draw_glyphs, draw_styles
from tread_bench.data.glyphs.words import caption_of
from tread_bench.measure.quality.caption_accuracy.family import CHARACTERS, CaptionAccuracyOptions
from tread_bench.measure.quality.samples import Samples


class CaptionAccuracy:
    """Compares each sample with drawings that differ from its caption's own in the character, or in the style alone.

    The nearest drawing has the largest correlation with the sample over the pixels, so neither contrast nor the level
    of the background matters.
    """

    def __init__(self, options: CaptionAccuracyOptions) -> None:
        pass

    def __call__(self, generated: Samples, real: Samples) -> dict[str, float]:
        # All characters of the data, and which of them a caption means.
        images = torch.cat([*generated.batches()])
        size = images.shape[-1]
        glyphs = draw_glyphs(size)
        pairs = zip(glyphs.faces.tolist(), glyphs.code_points.tolist(), strict=True)
        place_of = {caption_of(FACES[face], code_point): place for place, (face, code_point) in enumerate(pairs)}

        # Which of the drawings is nearest to each sample.
        letters, styles = [], []
        for image, caption in zip(images, generated.captions, strict=True):
            place = place_of[caption]
            face, code_point = int(glyphs.faces[place]), int(glyphs.code_points[place])
            letters.append(_is_nearest(image, glyphs.pixels[[place, *_others(glyphs.faces, place)]], own=0))
            if (drawn := draw_styles(face, code_point, size)) is not None:
                styles.append(_is_nearest(image, drawn.pixels, drawn.own))
        return {"letter_accuracy": _share(letters), "style_accuracy": _share(styles)}


def _others(faces: NDArray[np.int64], place: int) -> NDArray[np.int64]:
    """Places of other characters of the same face, drawn for this one."""
    same = np.flatnonzero(faces == faces[place])
    others = same[same != place]
    order = draws.words(0, f"caption accuracy/{place}", 0, len(others), 1)[:, 0].argsort()
    return others[order[: CHARACTERS - 1]]


def _is_nearest(image: Tensor, candidates: NDArray[np.uint8], own: int) -> bool:
    """Whether no other of the candidates (n, C, H, W) correlates as much with the image (C, H, W) as `own` does."""
    correlation = _centred(torch.from_numpy(candidates)) @ _centred(image[None])[0]
    return int((correlation >= correlation[own]).sum()) == 1


def _centred(images: Tensor) -> Tensor:
    """(n, C * H * W) float64, of mean 0 and length 1; all zero for an image of one level."""
    pixels = images.flatten(1).double()
    return torch.nn.functional.normalize(pixels - pixels.mean(1, keepdim=True), dim=1)


def _share(right: list[bool]) -> float:
    if not right:
        raise ValueError("no caption is of a character whose four styles differ: there is no style to find")
    return sum(right) / len(right)
