"""`profile --tokens`: a table of all families and numbers of tokens."""

from __future__ import annotations

import json

import typer
from rich.table import Table

from tread_bench.cli.show.console import stdout_console
from tread_bench.services.lengths import LengthsRequest, profile_lengths


def show_lengths(request: LengthsRequest, as_json: bool) -> None:
    """Print the figures. Raises UserError."""
    rows = profile_lengths(request)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    kinds = ("linear", "attention", "scan", "forward")
    table = Table(title="MMACs per token, dense", show_header=True)
    for header in ("backbone", "tokens", *kinds, "routed / dense", "ms per token", "speed-up"):
        table.add_column(header, justify="left" if header == "backbone" else "right")
    for row in rows:
        macs = [f"{row[f'{kind}_macs_per_token'] / 1e6:.2f}" for kind in kinds]
        timed = ["", ""]
        if "speedup" in row:
            interval = f"{row['speedup_low']:.2f} to {row['speedup_high']:.2f}"
            timed = [f"{row['step_ms_per_token']:.3f}", f"{row['speedup']:.2f} ({interval})"]
        table.add_row(row["backbone"], f"{row['tokens']:,}", *macs, f"{row['macs_ratio']:.3f}", *timed)
    stdout_console().print(table)
