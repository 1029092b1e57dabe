"""Trains the autoencoder that comes with this package: `python -m tread_bench.data.glyph_latents.train FILE`.

It takes ten minutes on a slow core. The same machine gives the same weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import Tensor

from tread_bench.core.stored.files import write_atomically
from tread_bench.data.glyph_latents.family import IMAGES
from tread_bench.data.glyph_latents.network import GlyphsAutoencoder
from tread_bench.data.glyphs.source import read_glyphs

STEPS = 3000
_BATCH = 32
_LEARNING_RATE = 4e-3
_KL_WEIGHT = 0.01  # beside squared errors, each summed over an image: a decoder's noise of 0.07 of a range of 2


def train_autoencoder(images: Tensor, steps: int) -> GlyphsAutoencoder:
    """Minimise squared error and weighted KL divergence, then standardise the latents.

    Args:
        images: (N, 1, S, S) in [-1, 1].
    """
    torch.manual_seed(0)
    network = GlyphsAutoencoder()
    optimizer = torch.optim.Adam(network.parameters(), betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=steps, pct_start=0.1)

    for _ in range(steps):
        batch = images[torch.randint(len(images), (_BATCH,))]
        mean, log_variance = network.posterior(batch)
        latents = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        error = F.mse_loss(network(latents), batch, reduction="sum")
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
        optimizer.zero_grad()
        ((error + _KL_WEIGHT * divergence) / _BATCH).backward()
        optimizer.step()
        schedule.step()

    with torch.no_grad():
        latents = torch.cat([network.posterior(part)[0] for part in images.split(_BATCH)])
        network.mean.copy_(latents.mean((0, 2, 3))[:, None, None])
        network.std.copy_(latents.std((0, 2, 3))[:, None, None])
    return network


def main(path: Path) -> None:
    """Train on the training images of `glyphs` and write a new file. Raises FileExistsError, before it trains."""
    if path.exists():
        raise FileExistsError(path)
    train = read_glyphs(IMAGES).train
    network = train_autoencoder(train.images(np.arange(len(train))), STEPS)
    write_atomically(path, save(network.state_dict()), overwrite=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
