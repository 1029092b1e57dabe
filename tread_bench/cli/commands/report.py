"""The command `report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import JsonOption, OverwriteOption, TablesOption


def report(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="RUN_DIR|FILE ...", help="a run folder, finished or not, or a file from --export"),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="folder to write into; default: the run folder, or for FILE.zip a folder FILE here"),
    ] = None,
    tables: TablesOption = None,
    export_to: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE", help="write the run's records to one small file instead, to send or publish"
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write results.csv, the figures and index.html of a run, or of an exported run, again.

    Several are drawn on one page, into --out, with the name of its run before
    each row. Rows are ranked together where data, metric protocol and iteration are the same.

    An exported file is a zip of plan.json and records.jsonl, without weights, images and logs. Settings in it name
    files without their folders; what failed cells said is in it as they said it.
    """
    from tread_bench.cli.show.comparison import print_comparison
    from tread_bench.services.decisions import decisions_of, hypothesis_of
    from tread_bench.services.export import export_run
    from tread_bench.services.report import write_report

    if export_to is not None:
        typer.echo(export_run(sources, export_to, out or tables, overwrite))
        return
    page, records, plan = write_report(sources, out, tables)
    if as_json:
        document = {
            "page": page,
            "decision": decisions_of(records, plan.planned, plan.smoke),
            "hypothesis": hypothesis_of(records, plan.planned, plan.smoke, plan.registered),
        }
        typer.echo(json.dumps(document, indent=2))
        return
    print_comparison(records, plan.planned, plan.smoke, plan.stand_ins, plan.registered)
    typer.echo(page)
