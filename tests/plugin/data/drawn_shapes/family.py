"""What is known of the data without torch."""

from typing import Literal

from pydantic import Field

from tread_bench import DataFamily, DataOptions


class ShapesOptions(DataOptions):
    """Discs, squares and crosses of random place, size and brightness; the last fifth is held out."""

    name: Literal["shapes"] = "shapes"
    count: int = Field(1000, ge=20, le=100_000, description="samples")
    image_size: int = Field(8, ge=8, description="side in pixels")

    @property
    def channels(self):
        return 1

    @property
    def num_classes(self):
        return 3


SHAPES = DataFamily(
    name="shapes",
    options=ShapesOptions,
    builder="drawn_shapes.source:draw_shapes",
    files=lambda options, generates: (),
    extractor=None,
    note="The data are drawn shapes, which a small network learns in seconds.",
)
