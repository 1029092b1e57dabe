"""The command `encode`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from tread_bench.cli.options import DataRootOption, DeviceOption, SetOption, number, option, resumable


def encode(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="a suite, for its data, or data as a suite writes them: '{name: parquet, train: [...], ...}'",
        ),
    ],
    vae: Annotated[
        Path, option("--vae", "folder of diffusers with an AutoencoderKL or AutoencoderDC; needs extra vae")
    ],
    out: Annotated[Path, option("--out", "folder of the latents; the same command again resumes")],
    overrides: SetOption = [],  # noqa: B006
    data_root: DataRootOption = None,
    dtype: Annotated[Literal["float32", "float16"], option("--dtype", "of what is stored")] = "float32",
    shard_samples: Annotated[int, number("--shard-samples", "samples in a file")] = 4096,
    device: DeviceOption = "auto",
) -> None:
    """Encode images to latents, and captions to features; print the `data` of a suite that trains on them.

    Writes DIR/train and DIR/held_out: shards of latents, and a manifest that says what they are.
    """
    from rich.console import Console
    from ruamel.yaml import YAML

    from tread_bench.cell.numerics import usable_device
    from tread_bench.core.errors import UserError
    from tread_bench.data.check import data_problems
    from tread_bench.data.encode.encode import SPLITS, EncodeRequest
    from tread_bench.data.encode.encode import encode as encode_images
    from tread_bench.services.display import counted
    from tread_bench.suite.load import data_of

    # Encode.
    images = data_of(source, overrides, data_root)
    with resumable():
        if problems := data_problems([(images, False)], reads_everything=True):
            raise UserError("\n".join(problems))
        usable = usable_device(device)
        with counted(Console(stderr=True), usable) as report:
            encode_images(EncodeRequest(images, vae, out, dtype, usable, shard_samples), report)

    # The keys that the manifests do not state; paths are absolute, so that the suite may be anywhere.
    train, held_out = (str(out.absolute() / name) for name in SPLITS)
    data = {
        "name": "latents",
        "train": [train],
        "held_out": [held_out],
        "decoder": str(vae.absolute()),
        "decoded_size": images.image_size,
    }
    YAML().dump({"data": data}, sys.stdout)
    typer.echo("  # images: [...]  the real images, for FID")
