"""The command `evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tread_bench.cli.options import (
    CellSeedOption,
    DataRootOption,
    DeviceOption,
    IterationOption,
    JsonOption,
    NoiseSeedOption,
    number,
    resumable,
)


def evaluate(
    samples: Annotated[
        str, typer.Argument(metavar="SAMPLES", help="an .npz file with arr_0, a folder of PNG files, or a run folder")
    ],
    reference: Annotated[
        str,
        typer.Option(
            "--reference",
            metavar="REF",
            help="what they are compared with: ADM's or EDM2's .npz, a folder of images, or data by name, suite or "
            "settings: '{name: image_folder, train: [...], ...}'",
        ),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics", metavar="A,B", help="see `list metrics`, with settings '{name: kid, ...}'; default: all"
        ),
    ] = None,
    networks: Annotated[
        list[str],
        typer.Option(
            "--network",
            metavar="NAME",
            help="feature network, see `list extractors`; with settings '{name: NAME, weights: FILE}'; repeat it for "
            "more; default: inception and dinov2",
        ),
    ] = [],  # noqa: B006
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights", metavar="DIR", help="folder of published weights; default: $TREAD_BENCH_WEIGHTS, see `doctor`"
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE.npy", help="the class of each sample, integers (n,)")
    ] = None,
    cell: Annotated[
        str | None, typer.Option("--cell", help="of a run folder: the cell's id, or a row's name, that is sampled")
    ] = None,
    num: Annotated[
        int | None,
        number("--num", "of a run folder: images that are generated; of a folder: its first images, by number"),
    ] = None,
    iteration: IterationOption = None,
    cell_seed: CellSeedOption = None,
    noise_seed: NoiseSeedOption = None,
    protocol: Annotated[
        Literal["adm", "torch-fidelity"], typer.Option("--protocol", help="whose Inception score, precision and recall")
    ] = "adm",
    batch: Annotated[int | None, number("--batch", "images at a time; default: as many as pay on the device")] = None,
    device: DeviceOption = "auto",
    data_root: DataRootOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="folder of evaluation.json and the page; default: evaluations/...")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure FID, sFID, KID, Inception score, precision, recall and more of any set of images.

    The same command again resumes. Status 1: a metric or a network that was
    named has no figure.
    """
    from tread_bench.cli.show.evaluate import show_evaluation
    from tread_bench.services.evaluate import EvaluateRequest
    from tread_bench.services.run_samples import RunSamples

    request = EvaluateRequest(
        samples=samples,
        reference=reference,
        metrics=metrics,
        networks=networks,
        weights=weights,
        labels=labels,
        of_run=RunSamples(cell, num, iteration, cell_seed, noise_seed),
        protocol=protocol,
        batch=batch,
        device=device,
        data_root=data_root,
        out=out,
    )
    with resumable():
        status = show_evaluation(request, as_json)
    raise typer.Exit(status)
