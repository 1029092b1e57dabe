"""scikit-learn's digits, without torch."""

from __future__ import annotations

from typing import Literal

from tread_bench.core.describe.data_sources import DataFamily, DataOptions


class DigitsData(DataOptions):
    """scikit-learn's 1,797 scanned digits, 8x8, one channel, ten classes; the last fifth is held out."""

    name: Literal["digits"] = "digits"

    @property
    def image_size(self) -> int:
        return 8

    @property
    def channels(self) -> int:
        return 1

    @property
    def num_classes(self) -> int:
        return 10


DIGITS = DataFamily(
    name="digits",
    options=DigitsData,
    builder="tread_bench.data.digits.source:read_digits",
    files=lambda options, generates: (),
    extractor="digits-classifier",
    counts=lambda options: (1438, 359),
    note=(
        "The data are scanned digits of 8×8 pixels and the network is small. At this size TREAD’s gain in quality is "
        "not expected, and results need not hold at a published size. The FIDs use a separate feature network, so they "
        "are not comparable with published ones."
    ),
)
