"""A tiny text model of CLIP with random weights and its tokenizer, in the files that transformers writes."""

from __future__ import annotations

import json
from pathlib import Path

import torch

TOKENS, WIDTH = 12, 16


def write_clip(folder: Path, seed: int = 0, **changed: int) -> str:
    """Return the folder. Words are spelt out in characters: the tokenizer joins none but t, h and e."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTextConfig, CLIPTextModel

    # Tokenizer.
    folder.mkdir(parents=True)
    characters = sorted(ByteLevel.alphabet())
    joined = ["th", "the</w>"]
    symbols = [*characters, *(f"{one}</w>" for one in characters), *joined, "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\nt h\nth e</w>\n")

    # Model.
    torch.manual_seed(seed)
    about = {
        "vocab_size": len(vocabulary),
        "hidden_size": WIDTH,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": TOKENS,
        "bos_token_id": len(vocabulary) - 2,
        "eos_token_id": len(vocabulary) - 1,
        "pad_token_id": len(vocabulary) - 1,
        **changed,
    }
    CLIPTextModel(CLIPTextConfig(**about)).save_pretrained(folder)
    return str(folder)
