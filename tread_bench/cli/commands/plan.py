"""The command `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import DataRootOption, JsonOption, SetOption, SuiteArgument


def plan(
    suite: SuiteArgument,
    overrides: SetOption = [],  # noqa: B006
    detect: Annotated[
        float | None,
        typer.Option("--detect", metavar="FID", help="how many seeds find a difference this large, at 80 % power?"),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option("--spread", metavar="FID", help="for --detect: standard deviation of paired differences"),
    ] = None,
    run_with_spread: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RUN", help="for --detect: a finished run, or its export, that shows the spread"
        ),
    ] = None,
    step_time: Annotated[
        str | None,
        typer.Option(
            "--step-time",
            metavar="MS|RUN",
            help="add the hours that it takes; give the ms of a step of its first row, or a run that timed it",
        ),
    ] = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the cells, parameters, MACs, memory of their state, disk and ideal speed-ups of a suite, without training.

    Files that are there are checked by their headers and labels; what is missing is listed.
    """
    from tread_bench.cli.show.plan import show_plan
    from tread_bench.services.detect_request import DetectRequest

    request = DetectRequest.of(detect, spread, run_with_spread)
    show_plan(suite, overrides, as_json, request, step_time, data_root)
