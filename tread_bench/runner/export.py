"""A run as one small file that can be sent, published and read by `report`: plan.json and records.jsonl in a zip."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path, PurePath
from typing import Any

from tread_bench.core.stored.documents import EXPORT_VERSION, EXPORTED, Export, RunPlan
from tread_bench.core.stored.files import StoreError, check_version, fit_document, json_of, read_json, replacing
from tread_bench.core.stored.foreign import open_archive, read_member
from tread_bench.runner.folder import RunFolder

# Of pictures, which stay in the run folder.
_PICTURES = {"samples", "samples_sha256", "captions", "real_samples", "real_samples_sha256"}
_NOT_SENT = {"evaluations": {"__all__": _PICTURES}}
_WAY_OUT = "get the file again from whoever exported it"
_PLAN, _RECORDS = "plan.json", "records.jsonl"
_MOST_BYTES = 2**30  # of both, unpacked


def export_of(folder: RunFolder, version: str) -> Export:
    """Return what a report reads of a run, with file names in place of paths.

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

    # Each text that is a path, and each key, becomes a name of its own.
    content = {
        "plan": plan.model_dump(mode="json", include=set(RunPlan.model_fields), exclude_unset=True),
        "records": [record.model_dump(mode="json", exclude=_NOT_SENT) for record in records],
    }
    about = {"generator": EXPORTED, "schema_version": EXPORT_VERSION, "version": version, "unreadable": unreadable}
    return Export.model_validate({**about, **_named(content, {})})


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
    """Return an export: a zip file, or the JSON that earlier versions wrote.

    Raises:
        UserError: it cannot be read, or is not an export; the message names the file and what is wrong in it.
    """
    content = _unpacked(path) if zipfile.is_zipfile(path) else read_json(path, _WAY_OUT)
    if not isinstance(content, dict) or content.get("generator") != EXPORTED:
        raise _no_export(path)
    check_version(content, Export, path, _WAY_OUT)
    check_version(content.get("plan"), RunPlan, path, _WAY_OUT)
    return fit_document(path, json.dumps(content), Export, _WAY_OUT)


def _unpacked(path: Path) -> dict[str, Any]:
    """The content of a zip file as that of an export. Raises StoreError."""
    try:
        with open_archive(path, _MOST_BYTES) as archive:
            if set(archive.namelist()) != {_PLAN, _RECORDS}:
                raise _no_export(path)
            plan, records = (read_member(archive, name, _MOST_BYTES) for name in (_PLAN, _RECORDS))
    except StoreError:
        raise
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({error}); {_WAY_OUT}") from None
    return {
        "generator": EXPORTED,
        "schema_version": EXPORT_VERSION,
        "version": "",
        "plan": json_of(plan, path, _WAY_OUT),
        "records": [json_of(line, path, _WAY_OUT) for line in records.splitlines()],
        "unreadable": {},
    }


def _no_export(path: Path) -> StoreError:
    return StoreError(f"{path} is not an export of tread-bench; `tread-bench report RUN_DIR --export FILE` writes one")


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
        same = sum(PurePath(other).name == path.name for other in names)
        names[value] = f"{path.stem} ({same + 1}){path.suffix}" if same else path.name
    return names[value]
