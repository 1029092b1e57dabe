"""The command `encode`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tread_bench.cli.options import DataRootOption, DeviceOption, SetOption, number, resumable


def encode(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="a suite, for its data, or data as a suite writes them: '{name: parquet, train: [...], ...}'",
        ),
    ],
    vae: Annotated[
        Path, typer.Option("--vae", help="folder of diffusers with an AutoencoderKL or AutoencoderDC; needs extra vae")
    ],
    out: Annotated[Path, typer.Option("--out", help="folder of the latents; the same command again resumes")],
    overrides: SetOption = [],  # noqa: B006
    data_root: DataRootOption = None,
    dtype: Annotated[Literal["float32", "float16"], typer.Option("--dtype", help="of what is stored")] = "float32",
    shard_samples: Annotated[
        int | None, number("--shard-samples", "samples in a file; default: as many as fit 256 MiB")
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """Encode images to latents, and captions to features; print the `data` of a suite that trains on them.

    Writes DIR/train and DIR/held_out: shards of latents, and a manifest that says what they are.
    """
    from tread_bench.data.encode.encode import EncodeRequest
    from tread_bench.services.encode import encode_images
    from tread_bench.suite.data import data_of

    request = EncodeRequest(data_of(source, overrides, data_root), vae, out, dtype, device, shard_samples)
    with resumable():
        typer.echo(encode_images(request))
