"""Whether drawn characters are those of their captions, without torch."""

from __future__ import annotations

from typing import Literal

from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.metrics import Figure, MetricFamily, MetricOptions, Needs
from tread_bench.data.glyphs.family import GlyphsData

CHARACTERS = 100  # among which the caption's own is to be found: R-precision's number


class CaptionAccuracyOptions(MetricOptions):
    """Share of drawn characters whose nearest drawing is the letter of their caption."""

    name: Literal["caption_accuracy"] = "caption_accuracy"


def _unfit(options: CaptionAccuracyOptions, data: DataOptions) -> str:
    if isinstance(data, GlyphsData) and data.captions is not None:
        return ""
    return f"it reads captions of drawn characters, which data {data.name} does not have: set data glyphs with captions"


CAPTION_ACCURACY = MetricFamily(
    name="caption_accuracy",
    options=CaptionAccuracyOptions,
    builder="tread_bench.measure.quality.caption_accuracy.metric:CaptionAccuracy",
    figures=(
        Figure(
            name="letter_accuracy",
            title="Letter accuracy",
            definition=(
                f"share of samples that are nearest to the character of their caption, among {CHARACTERS} characters "
                f"of the caption's face (R-precision, Xu et al. 2018); by chance {1 / CHARACTERS}; higher is better"
            ),
            lower_is_better=False,
            of_itself=None,
        ),
    ),
    needs=frozenset({Needs.IMAGES, Needs.CAPTIONS}),
    real_needs=frozenset(),
    min_samples=lambda options: CHARACTERS,
    protocol=lambda options: f"nearest of {CHARACTERS} characters by correlation of pixels, 1",
    unfit=_unfit,
)
