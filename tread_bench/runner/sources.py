"""What others read of a run: its folder, or the file that is exported from it; and several runs as one."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from tread_bench.core.errors import UserError
from tread_bench.core.stored.conditions import by_file_name
from tread_bench.core.stored.documents import Export, RunPlan, SuiteAbout
from tread_bench.core.stored.files import StoreError, document_of, replacing
from tread_bench.core.stored.foreign import open_archive, read_member
from tread_bench.core.stored.records import Record
from tread_bench.runner.folder import RunFolder

# Where a cell's configuration names a row.
_ROW_NAMES = (
    ("training", "budget", "macs_of"),
    ("training", "start", "row"),
    ("evaluate", "row"),
    ("sampling", "guidance", "row"),
)
# Of pictures, which stay in the run folder.
_PICTURES = {"samples", "samples_sha256", "captions", "real_samples", "real_samples_sha256"}
_NOT_SENT = {"evaluations": {"__all__": _PICTURES}}
_WAY_OUT = "get the file again from whoever exported it"
_PLAN, _RECORDS = "plan.json", "records.jsonl"
_MOST_BYTES = 2**30  # of both, unpacked


class Source(NamedTuple):
    """The plan and the records of a run; `unreadable` says of each other cell why its record cannot be read."""

    path: Path
    plan: RunPlan
    records: Sequence[Record]
    unreadable: Mapping[str, str]


def read_run(path: Path) -> Source:
    """Read a run folder or an export. Raises UserError where it is neither, or where its plan cannot be read."""
    if path.is_file():
        return read_export(path)
    folder = RunFolder(path)
    plan = folder.existing_plan()
    records, unreadable = folder.readable_records(plan.references)
    return Source(path, plan, records, unreadable)


def read_joined(paths: Sequence[Path]) -> Source:
    """Return the plan and the records of several runs, the names of whose rows and cells begin with that of their run.

    A run is called as its folder or file, from the folder on that holds them all. Files of data are named
    without their folders, by which rows of two machines would differ. The conditions are those of the first run.

    Raises:
        UserError: a run is given twice, or cannot be read.
    """
    places = [os.path.realpath(path) for path in paths]
    if len(set(places)) < len(places):
        raise UserError(f"{', '.join(map(str, paths))}: a run is given twice; give each run once")
    above = os.path.commonpath([os.path.dirname(place) for place in places])
    names = [os.path.relpath(place, above).removesuffix(".zip") for place in places]
    runs = [read_run(path) for path in paths]
    about = SuiteAbout(
        name=" and ".join(names), description=f"Rows of {len(runs)} runs. The conditions are those of {names[0]}."
    )

    # What is named in each run, by its new name.
    references: dict[str, str] = {}
    rows: dict[str, tuple[str, int]] = {}
    records: list[Record] = []
    unreadable: dict[str, str] = {}
    for run, name in zip(runs, names, strict=True):
        named = partial(_named, name)
        references |= {named(cell): named(other) for cell, other in run.plan.references.items()}
        rows |= {named(cell): (named(row), seed) for cell, (row, seed) in run.plan.rows.items()}
        unreadable |= {named(cell): why for cell, why in run.unreadable.items()}
        for record in run.records:
            changed = {key: named(getattr(record, key)) for key in ("cell", "row", "reference")}
            records.append(record.model_copy(update={**changed, "config": _config(record, name)}))
    changes = {
        "suite": about,
        "smoke": any(run.plan.smoke for run in runs),
        "cells": [*references],
        "references": references,
        "rows": rows,
        "equal_time": {},
        "tuning": {},
        "pending": sum(run.plan.pending for run in runs),
        "registered": None,
    }
    return Source(Path(about.name), runs[0].plan.model_copy(update=changes), records, unreadable)


def _named(run: str, text: str) -> str:
    return f"{run}/{text}" if text else ""


def _config(record: Record, run: str) -> dict[str, Any]:
    """The configuration of a cell, with the names of rows as they are in the joined run."""
    config: dict[str, Any] = by_file_name(record.config)
    for *sections, key in _ROW_NAMES:
        part: Any = config
        for section in sections:
            part = part.get(section) or {}
        if part.get(key) and not part.get("run"):
            part[key] = f"{run}/{part[key]}"
    return config


# A run as one small file that can be sent, published and read by `report`: plan.json and records.jsonl in a zip


def export_of(folder: RunFolder) -> tuple[Export, dict[str, str]]:
    """Return what a report reads of a run, with file names in place of paths, and why the records of other cells
    cannot be read.

    Raises:
        StoreError: there is no plan, or no record that can be read.
    """
    plan = folder.existing_plan()
    records, unreadable = folder.readable_records(plan.references)
    if not records:
        reasons = "".join(f"\n{reason}" for reason in unreadable.values())
        raise StoreError(f"{folder.root} has no readable record, so there is nothing to export{reasons}")
    content = {
        "plan": plan.model_dump(mode="json", include=set(RunPlan.model_fields), exclude_unset=True),
        "records": [record.model_dump(mode="json", exclude=_NOT_SENT) for record in records],
    }
    return Export.model_validate(by_file_name(content, partial(_numbered, names={}))), unreadable


def write_export(path: Path, export: Export, overwrite: bool = False) -> None:
    """Write the complete file. Keys keep their order, in which a page shows them. Raises OutputError."""
    plan = export.plan.model_dump_json(indent=1, exclude_unset=True)
    records = "".join(f"{record.model_dump_json(exclude=_NOT_SENT)}\n" for record in export.records)
    with replacing(path, overwrite) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in ((_PLAN, plan), (_RECORDS, records)):
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)


def read_export(path: Path) -> Source:
    """Return the run in an export.

    Raises:
        UserError: it cannot be read, or is not an export; the message names the file and what is wrong in it.
    """
    try:
        with open_archive(path, _MOST_BYTES) as archive:
            members = {name: read_member(archive, name, _MOST_BYTES) for name in archive.namelist()}
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({error}); {_WAY_OUT}") from None
    if members.keys() != {_PLAN, _RECORDS}:
        writes = "`tread-bench report RUN_DIR --export FILE` writes one"
        raise StoreError(f"{path} is not an export of tread-bench; {writes}")

    # Its documents, which belong together.
    plan = document_of(members[_PLAN], path / _PLAN, RunPlan, _WAY_OUT)
    records = []
    for number, line in enumerate(members[_RECORDS].splitlines(), 1):
        records.append(document_of(line, path / f"{_RECORDS}:{number}", Record, _WAY_OUT))
    references = {record.cell: record.reference for record in records}
    if not records or len(references) < len(records) or not references.items() <= plan.references.items():
        rule = "records must be of cells of the plan, each at most once and with its reference"
        raise StoreError(f"{path / _RECORDS}: {rule}; {_WAY_OUT}")
    return Source(path, plan, records, {})


def _numbered(path: PurePath, names: dict[PurePath, str]) -> str:
    """The name of a file, numbered where another path has that name; `names` has those that are given."""
    if path not in names:
        numbered = (f"{path.stem} ({number}){path.suffix}" for number in count(2))
        names[path] = next(name for name in chain([path.name], numbered) if name not in names.values())
    return names[path]
