"""The command `report`: a run's page again, several runs on one page, or a run as one file to send and publish."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import JsonOption, OverwriteOption, option
from tread_bench.core.errors import UserError


def report(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="RUN_DIR|FILE ...", help="a run folder, finished or not, or a file from --export"),
    ],
    out: Annotated[
        Path | None,
        option("--out", "folder to write into; default: the run folder, or for FILE.zip a folder FILE here"),
    ] = None,
    tables: Annotated[
        Path | None,
        option("--tables", "also write tables (CSV, Markdown, LaTeX) and figures (SVG, PNG, PDF) here", metavar="DIR"),
    ] = None,
    export_to: Annotated[
        Path | None,
        option("--export", "write the run's records to one small file instead, to send or publish", metavar="FILE"),
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
    from tread_bench.cli.comparison import print_comparison
    from tread_bench.services.decisions import decisions_of, hypothesis_of
    from tread_bench.services.report import write_report

    # One file to send, in place of a page.
    if export_to is not None:
        if (folder := out or tables) is not None:
            raise UserError(f"--export {export_to} writes one file, and no report into {folder}; give one of them")
        export_run(sources, export_to, overwrite)
        typer.echo(export_to)
        return

    # The page, and what it says.
    page, study, plan = write_report(sources, out, tables)
    if as_json:
        document = {
            "page": page,
            "decision": decisions_of(study, plan.planned),
            "hypothesis": hypothesis_of(study, plan.planned),
        }
        typer.echo(json.dumps(document, indent=2))
        return
    print_comparison(study, plan.planned, plan.stand_ins)
    typer.echo(page)


def export_run(paths: Sequence[Path], file: Path, overwrite: bool = False) -> None:
    """Write the records of a run to one file.

    Raises:
        UserError: there are several, it is not a run folder or has no record; or the file must not be written.
    """
    from tread_bench.core.stored.destinations import claim_file
    from tread_bench.runner.folder import RunFolder, disk_errors_reported
    from tread_bench.runner.sources import export_of, write_export
    from tread_bench.services.display import note

    # What is wanted.
    root, *others = paths
    if others:
        raise UserError(f"--export {file} writes the records of one run; give one run folder")
    if root.is_file():
        raise UserError(f"--export {file} writes the records of a run, and {root} is a file; give a run folder")
    claim_file("--export", file, overwrite)

    # What the run has left so far.
    export, unreadable = export_of(RunFolder(root))
    with disk_errors_reported(file.parent):
        write_export(file, export, overwrite)

    # What the file lacks, and what others should not see unread.
    if any(record.reason for record in export.records):
        note(
            "what cells said when they failed is in it as they said it: look for paths and hosts before you publish it"
        )
    for reason in unreadable.values():
        note(f"left out: {reason}")
    missing = export.plan.planned - len(export.records) - len(unreadable)
    if missing:
        note(f"{missing} of {export.plan.planned} cells have no record yet and are not in it")
