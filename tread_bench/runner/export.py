"""A run as one small file that can be sent, published and read by `report`."""

from __future__ import annotations

import getpass
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from tread_bench.core.stored.documents import EXPORT_VERSION, EXPORTED, Export, RunPlan
from tread_bench.core.stored.files import StoreError, check_version, fit_document, read_json, write_json
from tread_bench.core.stored.identity import cell_id
from tread_bench.core.stored.records import Record
from tread_bench.core.stored.redaction import Redaction
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.heartbeat import read_progress

# Of pictures, which stay in the run folder.
_PICTURES = {"samples", "samples_sha256", "captions", "real_samples", "real_samples_sha256"}
_NOT_SENT = {"evaluations": {"__all__": _PICTURES}}
_WAY_OUT = "get the file again from whoever exported it"


def export_of(folder: RunFolder, version: str) -> Export:
    """Return what a report reads of a run, without the places, hosts and users that made it.

    Args:
        version: of this program.

    Raises:
        StoreError: there is no plan, or no record that can be read.
    """
    # The run.
    plan = folder.existing_plan()
    records, unreadable = folder.readable_records(plan.references)
    if not records:
        reasons = "".join(f"\n{reason}" for reason in unreadable.values())
        raise StoreError(f"{folder.root} has no readable record, so there is nothing to export{reasons}")

    # Its parts, by names alone.
    redaction = _redaction(folder, plan, records)
    redaction.names |= _new_ids(plan, redaction)
    written = plan.model_dump(mode="json", include=set(RunPlan.model_fields), exclude_unset=True)
    return Export.model_validate(
        {
            "generator": EXPORTED,
            "schema_version": EXPORT_VERSION,
            "version": version,
            "plan": redaction.value(written),
            "records": [_record(record, redaction) for record in records],
            "unreadable": {
                redaction.text(cell): f"{redaction.text(cell)}: {redaction.message(reason)}"
                for cell, reason in unreadable.items()
            },
        }
    )


def write_export(path: Path, export: Export, overwrite: bool = False) -> None:
    """Write the complete file. Keys keep their order, in which a page shows them. Raises OutputError."""
    content = export.model_dump(mode="json")
    content["plan"] = export.plan.model_dump(mode="json", exclude_unset=True)
    write_json(path, content, overwrite)


def read_export(path: Path) -> Export:
    """Return an export.

    Raises:
        UserError: it cannot be read, or is not an export; the message names the file and what is wrong in it.
    """
    # Whether it is an export, and of which versions.
    content = read_json(path, _WAY_OUT)
    if not isinstance(content, dict) or content.get("generator") != EXPORTED:
        raise StoreError(
            f"{path} is not an export of tread-bench; `tread-bench report RUN_DIR --export FILE` writes one"
        )
    check_version(content, Export, path, _WAY_OUT)
    check_version(content.get("plan"), RunPlan, path, _WAY_OUT)
    return fit_document(path, json.dumps(content), Export, _WAY_OUT)


def _record(record: Record, redaction: Redaction) -> dict[str, Any]:
    """The record as JSON. Messages of programs in it are searched for more than paths."""
    return {
        **redaction.value(record.model_dump(mode="json", exclude=_NOT_SENT)),
        "reason": redaction.message(record.reason),
        "attempts": [redaction.message(attempt) for attempt in record.attempts],
    }


def _redaction(folder: RunFolder, plan: RunPlan, records: Sequence[Record]) -> Redaction:
    """For the files that the cells read, the folders in messages, and the users and hosts that ran them."""
    # Files.
    files = {*plan.files}
    for record in records:
        files |= {*record.data_files, *_absolute(record.config)}

    # Machines and people.
    hosts = {progress.host for cell in plan.cells if (progress := read_progress(folder, cell))}
    owners = set()
    with suppress(OSError, KeyError):  # a user without an entry in the system's list
        owners.add(folder.root.owner())

    folders = {os.path.abspath(folder.root), os.path.realpath(folder.root)}
    return redaction_here(files, folders, hosts, owners)


def redaction_here(
    files: Iterable[str] = (), folders: Iterable[str] = (), hosts: Iterable[str] = (), users: Iterable[str] = ()
) -> Redaction:
    """Of these, and of this machine: its name, its user, the home folder and the working directory."""
    people = {*users, os.environ.get("USER", ""), os.environ.get("LOGNAME", "")}
    with suppress(OSError, KeyError):
        people.add(getpass.getuser())
    machines = {*hosts, platform.node()}
    return Redaction(files, {*folders, os.getcwd()}, os.path.expanduser("~"), machines - {""}, people - {""})


def _absolute(value: Any) -> Iterator[str]:
    """The absolute paths among the texts of a configuration."""
    if isinstance(value, str) and PurePath(value).is_absolute():
        yield value
    parts: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _absolute(part)


def _new_ids(plan: RunPlan, redaction: Redaction) -> Mapping[str, str]:
    """Of cells whose row is named after a path, which their ids then contain too."""
    renamed = {}
    for cell, (row, seed) in plan.rows.items():
        name = redaction.text(row)
        if name != row:
            renamed[cell] = cell_id(name, seed, cell.rpartition("-")[2])
    return renamed
