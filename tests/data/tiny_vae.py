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
    about: dict[str, Any] = {"latent_channels": LATENT[kind][0], "scaling_factor": 0.5}
    if kind == "AutoencoderKL":
        blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
        about |= {**blocks, "block_out_channels": (8, 8), "norm_num_groups": 4}
    else:
        about["attention_head_dim"] = 4
        for part in ("encoder", "decoder"):
            about[f"{part}_block_out_channels"] = (8, 8)
            about[f"{part}_layers_per_block"] = (1, 1)
            about[f"{part}_qkv_multiscales"] = ((), ())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # As it is opened: torch multiplies by a matrix that requires gradients in another way, even without them.
        model = getattr(diffusers, kind)(**{**about, **settings}).eval().requires_grad_(False)
    model.save_pretrained(folder)
    return model
