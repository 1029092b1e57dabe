"""The command `sample`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import (
    CellSeedOption,
    GuidanceOption,
    IterationOption,
    JsonOption,
    NoiseSeedOption,
    OverwriteOption,
    RunArgument,
    number,
    option,
)


def sample(
    run_dir: RunArgument,
    cell: Annotated[str, option("--cell", "a cell's id, or a row's name (with --cell-seed, if it has several)")],
    cell_seed: CellSeedOption = None,
    guidance: GuidanceOption = None,
    scale: Annotated[float | None, option("--scale", "guidance scale; default: the cell's", min=0)] = None,
    sampler: Annotated[str | None, option("--sampler", "see `list samplers`; default: the cell's")] = None,
    steps: Annotated[int | None, number("--steps", "steps of the sampler; default: the cell's")] = None,
    num: Annotated[
        int, option("--num", "number of images; with --npz they are never all in memory", min=1, max=100_000)
    ] = 40,
    noise_seed: NoiseSeedOption = None,
    classes: Annotated[str | None, option("--classes", "classes to sample in turn, such as 0,1,2")] = None,
    iteration: IterationOption = None,
    out: Annotated[Path | None, option("--out", "folder; default: RUN_DIR/samples/...")] = None,
    npz: Annotated[
        Path | None,
        option("--npz", "one file in ADM's format instead: arr_0 (n, H, W, C), arr_1 classes", metavar="FILE"),
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Generate images from the weights that a run has kept: a grid and single PNG files, or one .npz file."""
    from tread_bench.services.sample import SampleRequest
    from tread_bench.services.sample import sample as write_samples

    request = SampleRequest(
        root=run_dir,
        cell=cell,
        cell_seed=cell_seed,
        guidance=guidance,
        changes={"guidance_scale": scale, "sampler": sampler, "steps": steps},
        num=num,
        noise_seed=noise_seed,
        classes=classes,
        iteration=iteration,
        out=out,
        npz=npz,
        overwrite=overwrite,
    )
    done = write_samples(request)
    if as_json:
        typer.echo(json.dumps({**done.files, "sampling_macs": done.macs}, indent=2))
        return
    for paths in done.files.values():
        typer.echo("\n".join([paths] if isinstance(paths, str) else paths))
    typer.echo(f"{done.macs / 1e9:.4g} GMACs per image")
