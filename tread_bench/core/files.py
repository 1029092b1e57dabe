"""Files that appear whole or not at all, and JSON documents read from them."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tread_bench.core.documents import SHOWN, Model, parsed
from tread_bench.core.errors import UserError, printable
from tread_bench.core.outputs import refuse_irregular

TEMPORARY = ".tread-bench-{}.tmp"
TEMPORARIES = re.compile(r"\.tread-bench-\w+\.tmp|\.step-\d+\.(safetensors|sha256)\.\w{8}\.tmp")  # the latter older
WAY_OUT = "restore it, or move it away and run its suite again"  # of a document that is damaged


class StoreError(UserError):
    """A run folder that cannot be used, with the way out."""


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write to a temporary name, flush to the disk, rename: a reader sees the old file or the new one.

    Makes no folder: a run folder that was moved away while its run is under way must not come back at its old place.

    Raises:
        OutputError: `path` is a link, a device or a folder.
        OSError: the disk is full or broken, say; it names `path`, and nothing is left of the attempt.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write, which takes the place of `path` in the end. Raises as `write_atomically`, and what is raised."""
    refuse_irregular(path)
    prefix, _, suffix = TEMPORARY.partition("{}")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            _flush(temporary)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _flush(path.parent)
    except OSError as error:
        error.filename = str(path)
        raise


def _flush(path: Path) -> None:
    """A file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporaries(folder: Path) -> list[Path]:
    """What killed writers of this program have left anywhere in a folder; nothing for a link."""
    return [path for path in files_in(folder) if TEMPORARIES.fullmatch(path.name)] if not folder.is_symlink() else []


def files_in(folder: Path) -> list[Path]:
    """All plain files in a folder and in those within it; no link, and nothing behind one."""
    found = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def write_json(path: Path, value: Any) -> None:
    """Indented JSON; NaN and infinity are refused, since JSON has none."""
    write_atomically(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def read_json(path: Path, way_out: str = WAY_OUT) -> Any:
    """The file's JSON, or None where there is no file. Raises StoreError where it is damaged."""
    try:
        content = json.loads(read_plain(path).decode())
    except FileNotFoundError:
        return None
    except OSError as error:
        way_out = way_out if error.errno == errno.EINVAL else "make it readable"
        raise StoreError(f"{path} cannot be read ({error.strerror}); {way_out}") from None
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read as JSON ({printable(str(error))}); {way_out}") from None
    if content is None:
        raise StoreError(f"{path} holds null, and must hold a document; {way_out}")
    return content


def read_plain(path: Path) -> bytes:
    """A file's content. Raises OSError, also for a device or a pipe, which may have no end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return path.read_bytes()


def fit_document(path: Path, content: Any, model: type[Model], way_out: str = WAY_OUT) -> Model:
    """The document whose JSON `content` was read from `path`. Raises StoreError with what is wrong with it."""
    found = parsed(content, model)
    if isinstance(found, list):
        more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise StoreError(f"{path}: {'; '.join(found[:SHOWN])}{more}; {way_out}")
    return found
