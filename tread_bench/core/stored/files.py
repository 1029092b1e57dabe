"""Atomic writes of plain files, never through a link, and JSON documents read from them."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, get_args

from pydantic import BaseModel
from pydantic_core import from_json

from tread_bench.core.errors import UserError
from tread_bench.core.problems import shortened
from tread_bench.core.stored.documents import Model, parsed
from tread_bench.core.stored.foreign import read_file

TEMPORARY = ".tread-bench-{}.tmp"
TEMPORARIES = re.compile(r"\.tread-bench-\w+\.tmp")
_SHOWN = 5  # problems of one document that a message lists
_OTHER = "give another path, or move it away"
WAY_OUT = "restore it, or move it away and run its suite again"  # for a damaged document


class StoreError(UserError):
    """A run folder that cannot be used; the text names the way out."""


def check_cell(owner: str | None, path: Path, cell_id: str) -> None:
    """Raise StoreError if the file at `path` belongs to another cell."""
    if owner != cell_id:
        rule = "files were exchanged or copied. Put each back where it was, then run the same command again"
        raise StoreError(f"{path} belongs to cell {owner}, not to {cell_id}: {rule}")


class OutputError(UserError):
    """A place that cannot or must not be written to; the text gives the reason."""


def refuse_irregular(path: Path, option: str = "") -> None:
    """Raise OutputError if `path` exists and is not a plain file: a link, a device, a folder."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISREG(mode):
        return
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link, and nothing is written through one"}
    kind = kinds.get(stat.S_IFMT(mode), "a device or a pipe")
    raise OutputError(f"{option} {path}".strip() + f" cannot be written (it is {kind}); {_OTHER}")


def refuse_existing(path: Path, option: str = "") -> None:
    """Raise OutputError if there is anything at `path`."""
    refuse_irregular(path, option)
    if path.exists():
        raise OutputError(f"{option} {path} exists; give another path, or --overwrite to replace it".strip())


def refuse_linked(folders: Iterable[Path]) -> None:
    """Raise OutputError if one of the folders is a link, so that output would end up elsewhere."""
    for folder in folders:
        if folder.is_symlink():
            rule = "which nothing is written through; move that folder here, or give another path"
            raise OutputError(f"{folder} is a link to {os.readlink(folder)}, {rule}")


def make_below(root: Path, folder: Path) -> None:
    """Make a folder and its parents below `root`. Raises FileNotFoundError if `root` does not exist."""
    depth = len(folder.relative_to(root).parts)
    for place in reversed([folder, *folder.parents][:depth]):
        place.mkdir(exist_ok=True)


def open_plain(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open or create a plain file. Raises OutputError for a link or a device."""
    refuse_irregular(path)
    return open(path, mode, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666), **options)


def write_atomically(path: Path, content: bytes | str, overwrite: bool = True) -> None:
    """Write to a temporary file, flush it to disk and rename it: a reader sees the old file or the new one.

    Creates no folder: a run folder that is moved away during its run must not reappear at its old place.

    Args:
        overwrite: whether a file at `path` is replaced.

    Raises:
        OutputError: `path` is a link, a device or a folder; or a file, without `overwrite`.
        OSError: for example, the disk is full; the error names `path`, and no temporary file is left.
    """
    with replacing(path, overwrite) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` at the end. Raises what `write_atomically` or the body raises.

    Its mode is that of the file it replaces, or what the umask leaves; until the end, nobody else reads the former.
    """
    refuse_irregular(path) if overwrite else refuse_existing(path)
    try:
        replaced = path.stat().st_mode if path.exists() else None
        temporary = path.with_name(TEMPORARY.format(secrets.token_hex(8)))
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o666 if replaced is None else 0o600))
        try:
            mode = replaced or temporary.stat().st_mode
            yield temporary
            _flush(temporary)
            os.chmod(temporary, stat.S_IMODE(mode))
            os.replace(temporary, path) if overwrite else _rename_to_new(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _flush(path.parent)
    except OSError as error:
        error.filename = str(path)
        raise


def _rename_to_new(temporary: Path, path: Path) -> None:
    """Rename a file, unless somebody else has made one at `path` meanwhile. Raises FileExistsError, OutputError."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        refuse_existing(path)
        os.replace(temporary, path)
    else:
        with suppress(OSError):  # it is written, and a temporary file that is left can be removed at any time
            temporary.unlink()


def _flush(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporaries(folder: Path) -> list[Path]:
    """List the temporary files that killed writers left in a folder and below; none if the folder is a link."""
    return [path for path in files_in(folder) if TEMPORARIES.fullmatch(path.name)] if not folder.is_symlink() else []


def files_in(folder: Path) -> list[Path]:
    """List all plain files in a folder and below, without links and what they point to."""
    found = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def write_document(path: Path, document: BaseModel, overwrite: bool = True) -> None:
    """Write indented JSON as `write_atomically` does; refuses NaN and infinity, which JSON does not have."""
    text = json.dumps(document.model_dump(mode="json"), indent=1, allow_nan=False)
    write_atomically(path, f"{text}\n", overwrite)


def read_json(path: Path, way_out: str = WAY_OUT) -> Any:
    """Return the file's JSON, or None if there is no file. Raises StoreError if the file is damaged."""
    text = read_bytes(path, way_out)
    return None if text is None else json_of(text, path, way_out)


def read_bytes(path: Path, way_out: str = WAY_OUT) -> bytes | None:
    """Return the content of a plain file, or None if there is no file. Raises StoreError if it cannot be read."""
    try:
        return read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        way_out = way_out if error.errno == errno.EINVAL else "make it readable"
        raise StoreError(f"{path} cannot be read ({error.strerror}); {way_out}") from None


def json_of(text: bytes, path: Path, way_out: str = WAY_OUT) -> Any:
    """Return the JSON that was read from `path`. Raises StoreError if it is damaged."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise StoreError(f"{path} cannot be read as JSON ({error}); {way_out}") from None


def read_document(path: Path, model: type[Model], way_out: str = WAY_OUT) -> Model | None:
    """Return a stored document, or None if there is no file. Raises StoreError as `read_bytes` and `document_of` do."""
    text = read_bytes(path, way_out)
    return None if text is None else document_of(text, path, model, way_out)


def document_of(text: bytes, path: Path, model: type[Model], way_out: str = WAY_OUT) -> Model:
    """Validate the JSON that was read from `path` as a document.

    Raises:
        StoreError: it is damaged, has another format version, or is not such a document; the text says what is wrong.
    """
    # A document of another format version may have other mistakes as well, which say nothing.
    content = json_of(text, path, way_out)
    if isinstance(content, dict) and "schema_version" in model.model_fields:
        (known,) = get_args(model.model_fields["schema_version"].annotation)
        version = content.get("schema_version", known)
        if version != known:
            rule = f"this version of tread-bench reads {known}: open it with the version that wrote it; or {way_out}"
            raise StoreError(f"{path} has format version {shortened(version)}, and {rule}")

    found = parsed(text, model)
    if isinstance(found, list):
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise StoreError(f"{path}: {'; '.join(found[:_SHOWN])}{more}; {way_out}")
    return found
