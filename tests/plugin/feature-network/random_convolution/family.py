"""What is known of the network without torch."""

from typing import Literal

from pydantic import Field

from tread_bench import ExtractorFamily, ExtractorOptions


class RandomConvolutionOptions(ExtractorOptions):
    """Means over the image of one convolution with random weights."""

    name: Literal["random-convolution"] = "random-convolution"
    width: int = Field(16, ge=1, description="features")


RANDOM_CONVOLUTION = ExtractorFamily(
    name="random-convolution",
    options=RandomConvolutionOptions,
    builder="random_convolution.extractor:build",
    has_logits=False,
    ships=True,
    resizes=True,
)
