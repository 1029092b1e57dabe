"""The command `clean`."""

from __future__ import annotations

from typing import Annotated

import typer

from tread_bench.cli.options import FORGETS, RunArgument


def clean(
    run_dir: RunArgument,
    yes: Annotated[bool, typer.Option("--yes", help="remove without asking", rich_help_panel=FORGETS)] = False,
) -> None:
    """Remove checkpoints of finished cells and what interrupted writers left, after naming every file."""
    from tread_bench.cli.show.clean import clean_folder

    clean_folder(run_dir, yes)
