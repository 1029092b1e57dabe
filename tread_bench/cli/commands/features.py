"""The command `features`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import DataRootOption, OverwriteOption, SetOption, SuiteArgument, number


def features(
    suite: SuiteArgument,
    out: Annotated[Path, typer.Option("--out", help="safetensors file to write")],
    overrides: SetOption = [],  # noqa: B006
    iterations: Annotated[int, number("--iterations", "training steps of the classifier")] = 1000,
    seed: Annotated[int, number("--seed", "seed of the classifier", least=0)] = 0,
    max_width: Annotated[
        int | None, number("--max-width", "most channels of a convolution, and features; default: 128")
    ] = None,
    data_root: DataRootOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Train a feature network for FID on a suite's data; name the file as metrics.extractor_weights."""
    from tread_bench.services.features import train_features

    typer.echo(json.dumps(train_features(suite, overrides, out, iterations, seed, max_width, data_root, overwrite)))
