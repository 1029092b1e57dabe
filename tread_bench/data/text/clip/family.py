"""CLIP's text model, without torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Int
from tread_bench.core.describe.data_sources import TextEncoderFamily, TextEncoderOptions

CONFIG, WEIGHTS = "config.json", "model.safetensors"
TOKENIZER = ("tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json")


class ClipOptions(TextEncoderOptions):
    """CLIP's text model: the last hidden state of every token, from a local folder; needs the extra text."""

    name: Literal["clip"] = "clip"
    weights: str = Field(
        description="folder of transformers with a CLIPTextModel and its CLIPTokenizer; nothing is downloaded"
    )
    tokens: Int = Field(77, ge=2, description="of a caption, padded or truncated")
    width: Int = Field(768, ge=1, description="of a token, as the model has it; 768 for ViT-L/14")


def _files(options: ClipOptions) -> Iterator[tuple[str, str]]:
    """Configuration, weights, and those files of a tokenizer that are there: versions of transformers write others."""
    there = [name for name in TOKENIZER if os.path.isfile(os.path.join(options.weights, name))]
    for name in (CONFIG, WEIGHTS, *(there or TOKENIZER[:1])):
        yield "weights", os.path.join(options.weights, name)


CLIP = TextEncoderFamily(
    name="clip", options=ClipOptions, builder="tread_bench.data.text.clip.encoder:Clip", files=_files
)
