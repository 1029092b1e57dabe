"""The command `features`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import (
    DataRootOption,
    JsonOption,
    OverwriteOption,
    SetOption,
    SuiteArgument,
    number,
    option,
)


def features(
    suite: SuiteArgument,
    out: Annotated[Path, option("--out", "safetensors file to write")],
    overrides: SetOption = [],  # noqa: B006
    iterations: Annotated[
        int | None,
        number("--iterations", "training steps of the classifier; default: until its accuracy settles, 1,000 at most"),
    ] = None,
    seed: Annotated[int, number("--seed", "seed of the classifier", least=0)] = 0,
    max_width: Annotated[
        int | None, number("--max-width", "most channels of a convolution, and features; default: 128")
    ] = None,
    data_root: DataRootOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a feature network for FID on a suite's data; name the file as metrics.extractor_weights."""
    from rich.console import Console

    from tread_bench.core.stored.destinations import claim_file
    from tread_bench.services.display import counted
    from tread_bench.suite.load import data_of_suite

    # Where to, and of what.
    claim_file("--out", out, overwrite)
    data = data_of_suite(suite, overrides, data_root)

    # Train.
    from tread_bench.measure.quality.feature_training import MAX_WIDTH, train_and_save

    width = max_width or MAX_WIDTH
    with counted(Console(stderr=True)) as report:
        found = train_and_save(data, out, iterations, seed, suite, width, overwrite, report)
    if as_json:
        typer.echo(json.dumps(found))
        return
    spent = f"{found['iterations']:,} iterations in {found['seconds']:.0f} s"
    share = f"{found['held_out_accuracy']:.1%} of {found['held_out_images']:,} held-out images"
    typer.echo(f"After {spent}, the network classifies {share} correctly.")
    typer.echo(f"To measure with it: --set metrics.extractor_weights={found['path']}")
