"""A run as one small file that can be sent, published and read by `report`: plan.json and records.jsonl in a zip."""

from __future__ import annotations

import json
import zipfile
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Any

from tread_bench.core.stored.documents import Export, RunPlan
from tread_bench.core.stored.files import StoreError, check_version, fit_document, json_of, replacing
from tread_bench.core.stored.foreign import open_archive, read_member
from tread_bench.runner.folder import RunFolder

# Of pictures, which stay in the run folder.
_PICTURES = {"samples", "samples_sha256", "captions", "real_samples", "real_samples_sha256"}
_NOT_SENT = {"evaluations": {"__all__": _PICTURES}}
_WAY_OUT = "get the file again from whoever exported it"
_PLAN, _RECORDS = "plan.json", "records.jsonl"
_MOST_BYTES = 2**30  # of both, unpacked


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
    return Export.model_validate(_named(content, {})), unreadable


def write_export(path: Path, export: Export, overwrite: bool = False) -> None:
    """Write the complete file. Keys keep their order, in which a page shows them. Raises OutputError."""
    lines = [record.model_dump_json(exclude=_NOT_SENT) + "\n" for record in export.records]
    members = {
        _PLAN: json.dumps(export.plan.model_dump(mode="json", exclude_unset=True), indent=1),
        _RECORDS: "".join(lines),
    }
    with replacing(path, overwrite) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)


def read_export(path: Path) -> Export:
    """Return an export.

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
    plan = json_of(members[_PLAN], path, _WAY_OUT)
    check_version(plan, RunPlan, path, _WAY_OUT)
    records = [json_of(line, path, _WAY_OUT) for line in members[_RECORDS].splitlines()]
    return fit_document(path, json.dumps({"plan": plan, "records": records}), Export, _WAY_OUT)


def _named(value: Any, names: dict[str, str]) -> Any:
    """The same JSON with a name in place of each absolute path, numbered where another path has that name."""
    if isinstance(value, dict):
        return {_named(key, names): _named(part, names) for key, part in value.items()}
    if isinstance(value, list):
        return [_named(part, names) for part in value]
    if not isinstance(value, str) or not PurePath(value).is_absolute():
        return value
    if value not in names:
        path = PurePath(value)
        numbered = (f"{path.stem} ({number}){path.suffix}" for number in count(2))
        names[value] = next(name for name in chain([path.name], numbered) if name not in names.values())
    return names[value]
