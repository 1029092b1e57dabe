"""`sample`: where the images are, and what one costs."""

from __future__ import annotations

import json

import typer

from tread_bench.services.sample import SampleRequest, sample


def show_samples(request: SampleRequest, as_json: bool) -> None:
    """Generate images, print where they are and the cost per image. Raises UserError."""
    done = sample(request)
    if as_json:
        typer.echo(json.dumps({**done.files, "sampling_macs": done.macs}, indent=2))
        return
    for paths in done.files.values():
        typer.echo("\n".join([paths] if isinstance(paths, str) else paths))
    typer.echo(f"{done.macs / 1e9:.4g} GMACs per image")
