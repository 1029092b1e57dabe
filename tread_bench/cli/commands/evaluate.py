"""The command `evaluate`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from tread_bench.cli import options

_REFERENCE = "what they are compared with: statistics or images as .npz, a folder, or data by name, suite or settings"
_METRICS = "see `list metrics`, with settings 'fid, {name: kid, subsets: 100}'; default: all"
_NETWORK = (
    "see `list extractors`, with settings '{name: NAME, weights: FILE}'; repeat it; default: inception and dinov2"
)
_WEIGHTS = "folder of published weights; default: $TREAD_BENCH_WEIGHTS, see `doctor`"
_NUM = "of a run folder: images that are generated; of a folder: its first images, by number"
_PROTOCOL = "whose Inception score, precision and recall"
_OUT = "folder of evaluation.json and the page; default: evaluations/..."


def evaluate(
    ctx: typer.Context,
    samples: Annotated[str, typer.Argument(metavar="SAMPLES", help=".npz or .npy, a folder of PNG files, or a run's")],
    reference: Annotated[str, typer.Option(metavar="REF", help=_REFERENCE)],
    metrics: Annotated[str, typer.Option(metavar="A,B", help=_METRICS)] = "",
    network: Annotated[list[str], typer.Option(metavar="NAME", help=_NETWORK)] = [],  # noqa: B006
    weights: Annotated[Path | None, typer.Option(metavar="DIR", help=_WEIGHTS)] = None,
    cell: Annotated[str | None, typer.Option(help="of a run folder: a cell's id or a row's name")] = None,
    num: Annotated[int | None, options.number("--num", _NUM)] = None,
    iteration: options.IterationOption = None,
    cell_seed: options.CellSeedOption = None,
    noise_seed: options.NoiseSeedOption = None,
    protocol: Annotated[Literal["adm", "torch-fidelity"], typer.Option(help=_PROTOCOL)] = "adm",
    batch: Annotated[
        int | None, options.number("--batch", "images at a time; default: as many as pay on the device")
    ] = None,
    device: options.DeviceOption = "auto",
    data_root: options.DataRootOption = None,
    out: Annotated[Path | None, typer.Option(help=_OUT)] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Measure FID, sFID, KID, Inception score, precision, recall and more of any set of images.

    Features of a whole set are kept: the same command again finds them.
    """
    from rich.table import Table

    from tread_bench import evaluate as evaluated
    from tread_bench.cell.numerics import keep_freed_memory
    from tread_bench.cli.console import stdout_console
    from tread_bench.reports.page.evaluation import interval_text, value_text

    # Another request has another folder.
    if out is None:
        request = hashlib.sha256(repr(sorted({**ctx.params, "as_json": None}.items())).encode()).hexdigest()
        out = Path("evaluations") / f"{Path(samples).stem}-{request[:10]}"

    keep_freed_memory()
    evaluation = evaluated(
        samples,
        reference,
        metrics=metrics,
        networks=network,
        weights=weights,
        cell=cell,
        num=num,
        iteration=iteration,
        cell_seed=cell_seed,
        noise_seed=noise_seed,
        protocol=protocol,
        batch=batch,
        device=device,
        data_root=data_root,
        out=out,
    )
    if as_json:
        typer.echo(json.dumps(evaluation.model_dump(mode="json"), indent=2))
        return
    table = Table("figure", "feature network", "value", "95 % interval")
    for row in evaluation.rows:
        table.add_row(row.title, row.network, value_text(row), interval_text(row))
    stdout_console().print(table)
    for caution in evaluation.cautions:
        typer.echo(f"caution: {caution}")
    typer.echo(out / "index.html")
