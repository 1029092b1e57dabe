"""`profile --tokens`: a table of all families and numbers of tokens, and from how many on a linear cost pays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.table import Table

from tread_bench.cli.show.console import stdout_console
from tread_bench.services.lengths import KINDS, LengthsRequest, profile_lengths


def show_lengths(request: LengthsRequest, as_json: bool) -> None:
    """Print the figures. Raises UserError."""
    found = profile_lengths(request)
    if as_json:
        typer.echo(json.dumps(found.lines, indent=2))
        return
    console = stdout_console()
    console.print(_table(found.lines, request.is_timed))
    for line in found.lines:
        if line["problem"]:
            console.print(f"{line['backbone']}, {line['tokens']:,} tokens: {line['problem']}")
    for sentence in found.sentences:
        console.print(sentence, style="bold")
    if request.tables is not None:
        typer.echo(request.tables)


def _table(lines: Sequence[Mapping[str, Any]], is_timed: bool) -> Table:
    table = Table(title="MMACs per token, dense", show_header=True)
    times = ("images", "dense ms\nper token", "ms\nper token", "speed-up") if is_timed else ()
    for header in ("backbone", "tokens", *KINDS, "routed / dense", *times):
        table.add_column(header, justify="left" if header == "backbone" else "right")
    for line in lines:
        macs = _costs(line) if line["params"] else ["impossible"]
        table.add_row(line["backbone"], f"{line['tokens']:,}", *macs, *(_times(line) if is_timed else ()))
    return table


def _costs(line: Mapping[str, Any]) -> list[str]:
    macs = [f"{line[f'{kind}_macs_per_token'] / 1e6:.2f}" for kind in KINDS]
    return [*macs, f"{line['macs_ratio']:.3f}"]


def _times(line: Mapping[str, Any]) -> list[str]:
    if line["batch"] is None:
        return ["not timed"]
    ms = [f"{line[name]:.3f}" for name in ("dense_step_ms_per_token", "step_ms_per_token")]
    ratio = f"{line['speedup']:.2f} ({line['speedup_low']:.2f} to {line['speedup_high']:.2f})"
    return [f"{line['batch']:,}", *ms, ratio]
