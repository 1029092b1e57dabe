"""Words as fixed random vectors, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Whole
from tread_bench.core.describe.data_sources import TextEncoderFamily, TextEncoderOptions


class WordsOptions(TextEncoderOptions):
    """A fixed random vector for each word, plus a sinusoid of its place: no weights, the same on every machine."""

    name: Literal["words"] = "words"
    tokens: Whole = Field(24, ge=1, le=4096, description="words of a caption; shorter ones are padded with zeros")
    width: Whole = Field(64, ge=1, le=65536, description="of a token")


WORDS = TextEncoderFamily(name="words", options=WordsOptions, builder="tread_bench.data.text.words.encoder:Words")
