"""Autoencoders of diffusers with random weights, so small that a test encodes with them in milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

SIDE = 16  # of images
LATENT = {"AutoencoderKL": (4, 8, 8), "AutoencoderDC": (8, 8, 8)}


def write_vae(folder: Path, kind: str = "AutoencoderKL", seed: int = 0, **settings: Any) -> Any:
    """Write it as diffusers does; the model. Skips the test without diffusers."""
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed (extra vae)")
    widths = (8, 8)
    if kind == "AutoencoderKL":
        settings = {
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
            "block_out_channels": widths,
            "norm_num_groups": 4,
            "latent_channels": 4,
            "scaling_factor": 0.5,
            **settings,
        }
    else:
        settings = {
            "latent_channels": 8,
            "attention_head_dim": 4,
            "encoder_block_out_channels": widths,
            "decoder_block_out_channels": widths,
            "encoder_layers_per_block": (1, 1),
            "decoder_layers_per_block": (1, 1),
            "encoder_qkv_multiscales": ((), ()),
            "decoder_qkv_multiscales": ((), ()),
            "scaling_factor": 0.25,
            **settings,
        }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # As it is opened: torch multiplies by a matrix that requires gradients in another way, even without them.
        model = getattr(diffusers, kind)(**settings).eval().requires_grad_(False)
    model.save_pretrained(folder)
    return model
