"""`encode`: images to latents, and captions to features."""

from __future__ import annotations

from dataclasses import replace

import yaml
from rich.console import Console

from tread_bench.cell.numerics import usable_device
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.encode.encode import SPLITS, EncodeRequest, encode
from tread_bench.services.display import counted


def encode_images(request: EncodeRequest) -> str:
    """Encode both splits; the `data` of a suite that trains on the latents. Raises UserError."""
    if problems := data_problems([(request.data, False)], reads_everything=True):
        raise UserError("\n".join(problems))
    device = usable_device(request.device)
    with counted(Console(stderr=True), device, "images are encoded") as report:
        encode(replace(request, device=device), report)
    return _data_of_suite(request)


def _data_of_suite(request: EncodeRequest) -> str:
    """YAML with the keys that the manifests do not state; paths are absolute, so that the suite may be anywhere."""
    train, held_out = (str(request.out.absolute() / name) for name in SPLITS)
    data = {
        "name": "latents",
        "train": [train],
        "held_out": [held_out],
        "decoder": str(request.vae.absolute()),
        "decoded_size": request.data.image_size,
    }
    text: str = yaml.safe_dump({"data": data}, sort_keys=False, allow_unicode=True)
    return f"{text}  # images: [...]  the real images, for FID"
