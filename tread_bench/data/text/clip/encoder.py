"""CLIP's text model by transformers, from a local folder: nothing is downloaded, and no file can run code.

Source: baofff/U-ViT, libs/clip.py, whose features of captions these are: the last hidden state of all tokens, padded
to the maximum, without a mask of the padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.core.stored.foreign import one_line
from tread_bench.data.pretrained import full_float32, import_library, in_chunks, load_pretrained, quiet
from tread_bench.data.text.clip.family import CONFIG, WEIGHTS, ClipOptions

_CHUNK = 16  # captions at a time
_WRONG = {"missing": "missing_keys", "of another shape": "mismatched_keys"}  # CLIP's image side may be there, too
_WAY_OUT = "give a folder with a CLIPTextModel and a CLIPTokenizer, as `save_pretrained` of transformers writes them"


class Clip:
    """The encoder `clip`, computed in float32.

    Raises:
        UserError: transformers is not installed, or the folder does not hold such a model, of such a width.
    """

    def __init__(self, options: ClipOptions) -> None:
        # The model and its tokenizer.
        self.options = options
        folder = Path(options.weights)
        transformers = import_library("transformers", "text", folder)
        for name in (CONFIG, WEIGHTS):
            if not (folder / name).is_file():
                raise UserError(f"{folder / name}: no such file; {_WAY_OUT}")
        with _quiet():
            self.network = load_pretrained(transformers, "CLIPTextModel", folder, _WRONG, dtype=torch.float32)
            try:
                self.tokenizer = transformers.CLIPTokenizer.from_pretrained(folder, local_files_only=True)
            except MemoryError:
                raise
            except Exception as error:  # of any kind, where a file is damaged
                reason = f"no CLIPTokenizer that can be loaded ({one_line(error)}); {_WAY_OUT}"
                raise UserError(f"{folder}: {reason}") from None

        # Its sizes.
        config = self.network.config
        if config.hidden_size != options.width:
            raise UserError(
                f"{options.weights}: tokens of width {config.hidden_size} where the encoder's width is "
                f"{options.width}: set width: {config.hidden_size}"
            )
        if config.max_position_embeddings < options.tokens:
            raise UserError(
                f"{options.weights}: at most {config.max_position_embeddings} tokens where the encoder's tokens are "
                f"{options.tokens}: set tokens: {config.max_position_embeddings}"
            )

    def to(self, device: torch.device | str) -> Self:
        """Return the same encoder, on that device."""
        self.network.to(device)
        return self

    @torch.no_grad()
    def encode(self, captions: Sequence[str]) -> Tensor:
        """Captions -> (B, M, E) float32, on the CPU."""
        with _quiet():
            found = self.tokenizer(
                _readable(captions),
                truncation=True,
                max_length=self.options.tokens,
                padding="max_length",
                return_tensors="pt",
            )
        device = self.network.device
        with full_float32(device):
            ids = found["input_ids"].to(device)
            return in_chunks(lambda part: self.network(input_ids=part).last_hidden_state, ids, _CHUNK).cpu()

    def lengths(self, captions: Sequence[str]) -> list[int]:
        """Return how many tokens each caption has, with those of start and end; those beyond M are cut off."""
        with _quiet():
            return [len(ids) for ids in self.tokenizer(_readable(captions))["input_ids"]]


def _readable(captions: Sequence[str]) -> list[str]:
    """Halves of surrogate pairs, which JSON can hold and a tokenizer cannot, as question marks."""
    return [caption.encode("utf-8", "replace").decode() for caption in captions]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what transformers prints: its warnings are errors here, or are reported."""
    from transformers.utils import logging as printed

    has_bars = printed.is_progress_bar_enabled()
    printed.disable_progress_bar()
    try:
        with quiet("transformers"):
            yield
    finally:
        if has_bars:
            printed.enable_progress_bar()
