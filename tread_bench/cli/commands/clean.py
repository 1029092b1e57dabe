"""The command `clean`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import FORGETS


def clean(
    run_dir: Annotated[Path, typer.Argument(help="a run folder, finished or not")],
    yes: Annotated[bool, typer.Option("--yes", help="remove without asking", rich_help_panel=FORGETS)] = False,
) -> None:
    """Remove checkpoints of finished cells and what interrupted writers left, after naming every file."""
    from tread_bench.cli.show.clean import clean_folder

    clean_folder(run_dir, yes)
