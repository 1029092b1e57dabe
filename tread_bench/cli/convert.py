"""`tread-bench convert`: latents that are stored as pickles, as safetensors files with a manifest."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from tread_bench.core.latent_manifest import Flips
from tread_bench.data.latents.pickled import convert


def convert_latents(source: Path, layout: str, out: Path, num_classes: int, flips: Flips | None) -> str:
    """Convert a folder; return the `data` of a suite that trains on it, in YAML. Raises UserError."""
    manifest = convert(source, layout, out, num_classes, flips, _report)
    data = {
        "name": "latents",
        "train": [str(out.absolute())],
        "held_out": ["FOLDER of held-out latents, converted likewise"],
    }
    text: str = yaml.safe_dump({"data": data}, sort_keys=False, allow_unicode=True)
    return f"{text}# {manifest.count:,} samples of {manifest.num_classes} classes; {manifest.encoder}"


def _report(count: int) -> None:
    print(f"{count:,} samples are converted", file=sys.stderr, flush=True)
