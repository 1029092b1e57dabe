"""The command `status`."""

from __future__ import annotations

from typing import Annotated

import typer

from tread_bench.cli.options import JsonOption, RunArgument


def status(
    run_dir: RunArgument,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="keep watching until all records exist or Ctrl-C, even if no runner is active"),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is done, what runs where, how long it may take, and what failed or was lost."""
    from tread_bench.cli.show.status import show_status

    show_status(run_dir, watch, as_json)
