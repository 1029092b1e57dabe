"""The command `sample`: images from the weights that a run has kept."""

from __future__ import annotations

import json
from functools import partial
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
from tread_bench.core.errors import UserError

COMMAND = "tread-bench sample"


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
    import torch
    from rich.console import Console

    from tread_bench.core.names import canonical_json
    from tread_bench.core.stored.destinations import check_folder, claim_file, claim_folders
    from tread_bench.core.stored.files import make_below, refuse_linked, write_atomically
    from tread_bench.measure.quality.png import GRID, grid_png, image_png
    from tread_bench.services.display import counted
    from tread_bench.services.samples import SampledCell
    from tread_bench.suite.resolve import digest

    # Everything that can be refused before any work.
    if npz is not None and out is not None:
        raise UserError(f"--npz {npz} writes one file, --out {out} a folder of images; give one of them")
    if npz is not None:
        claim_file("--npz", npz, overwrite)
    if out is not None:
        check_folder("--out", out, COMMAND)
    sampled = SampledCell.open(
        run_dir,
        cell,
        num,
        cell_seed=cell_seed,
        iteration=iteration,
        noise_seed=noise_seed,
        classes=classes,
        guidance=guidance,
        guidance_scale=scale,
        sampler=sampler,
        steps=steps,
    )

    # One file, batch by batch.
    files: dict[str, str | list[str]]
    if npz is not None:
        with counted(Console(stderr=True), str(sampled.job.device)) as report:
            sampled.write_npz(npz, partial(report, sampled.job.request.row), overwrite)
        files = {"npz": str(npz)}

    # Or a folder of images, with their grid.
    else:
        folder = out
        if folder is None:
            rule = sampled.cell.sampling
            settings = digest(canonical_json([rule.model_dump(mode="json"), classes, sampled.iteration]))
            drawn = f"{rule.guidance.name}-{rule.guidance_scale:g}-{rule.sampler}{rule.steps}-seed{sampled.seed}"
            folder = run_dir / "samples" / sampled.job.id / f"{drawn}-{settings}"
            refuse_linked([run_dir / "samples", folder.parent, folder])
        pixels = torch.cat([*sampled.batches()])
        pictures = {f"{k:05d}.png": image_png(image) for k, image in enumerate(pixels)}
        if out is None:
            make_below(run_dir, folder)
        else:
            claim_folders(COMMAND, {"--out": out})
        for name, content in (pictures | {GRID: grid_png(pixels)}).items():
            write_atomically(folder / name, content)
        files = {"grid": str(folder / GRID), "images": [str(folder / name) for name in pictures]}

    # What was written, and what each image cost.
    if as_json:
        typer.echo(json.dumps({**files, "sampling_macs": sampled.macs}, indent=2))
        return
    for paths in files.values():
        typer.echo("\n".join([paths] if isinstance(paths, str) else paths))
    typer.echo(f"{sampled.macs / 1e9:.4g} GMACs per image")
