"""The files that cells read, identified by content: a file that changed since the run began is refused by name.

A look reads the size and the first and last bytes, where formats keep their headers. Before a cell reads a file, its
content is hashed; the hash is cached by path, size, inode and times.

A folder that is read as a whole (`data_paths.folder_name`) counts as one file: a look reads the names and sizes of all
files below it and opens none, and its hash is over names and contents.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tread_bench.core.errors import UserError
from tread_bench.core.stored.cache import cache_folder, keep, one_at_a_time
from tread_bench.core.stored.data_paths import entries_below, is_folder_name, named_where_unreadable
from tread_bench.core.stored.foreign import open_file, read_file
from tread_bench.core.stored.records import DataFile

ENDS_BYTES = 2**16  # read at each end of a file
SETTLED_S = 2.0  # a file changed this recently may change again with the same time stamp

Files = Mapping[str, DataFile]  # by path


class ChangedDataError(UserError):
    """A file that changed since the run, or the cell, began."""


class FileState(NamedTuple):
    """What changes when a file, or one in a folder, is written to: what is known of a content is cached by it."""

    path: str
    stamp: str  # of a folder: hash of the names and stamps of its files
    changed_ns: int  # the latest of a folder


def look_at(paths: Iterable[str]) -> dict[str, DataFile]:
    """Read the size and ends of each file, and the hash of its content if that is cached.

    Raises:
        UserError: a file or folder cannot be read.
    """
    return {path: _look(path) for path in paths}


def _look(path: str) -> DataFile:
    with named_where_unreadable(path):
        return _look_at_folder(path) if is_folder_name(path) else _look_at_file(path)


def _look_at_file(path: str) -> DataFile:
    with open_file(path) as file:
        about = os.fstat(file.fileno())
        digest = hashlib.sha256(file.read(ENDS_BYTES))
        file.seek(max(0, about.st_size - ENDS_BYTES))
        digest.update(file.read(ENDS_BYTES))
    return DataFile(bytes=about.st_size, ends_sha256=digest.hexdigest(), sha256=_cached(state_of(path)))


def _look_at_folder(path: str) -> DataFile:
    # The size of its files, their number, and a hash of their names and sizes; none of them is opened.
    names = hashlib.sha256()
    size = count = 0
    for entry in entries_below(path):
        about = entry.stat()
        names.update(os.fsencode(f"{entry.path.removeprefix(path)}\0{about.st_size}\0"))
        size += about.st_size
        count += 1
    return DataFile(bytes=size, files=count, ends_sha256=names.hexdigest(), sha256=_cached(state_of(path)))


def stamp_of(about: os.stat_result) -> str:
    """Return what differs once a file was written to, whatever time it was given afterwards: a program can set the
    time of modification, but not that of change.
    """
    return f"{about.st_size} {about.st_ino} {about.st_mtime_ns} {about.st_ctime_ns}"


def is_settled(changed_ns: int) -> bool:
    """Return whether a file was changed so long ago that its next change has another time stamp."""
    return time.time() - changed_ns / 1e9 > SETTLED_S


def state_of(path: str) -> FileState:
    """Return the state of a file, or of a folder's files together. Raises OSError."""
    real = os.path.realpath(path)
    if not is_folder_name(path):
        about = os.stat(path)
        return FileState(path=real, stamp=stamp_of(about), changed_ns=about.st_ctime_ns)
    digest = hashlib.sha256()
    latest = 0
    for entry in entries_below(path):
        about = entry.stat()
        digest.update(os.fsencode(f"{entry.path.removeprefix(path)}\0{stamp_of(about)}\0"))
        latest = max(latest, about.st_ctime_ns)
    return FileState(path=real, stamp=digest.hexdigest(), changed_ns=latest)


def check_unchanged(before: Files, now: Files, since: str) -> None:
    """Raise ChangedDataError, naming each file that is in both mappings and differs."""
    found = [
        f"{path} has changed since {since} ({how})"
        for path in before.keys() & now.keys()
        if (how := _difference(before[path], now[path]))
    ]
    if found:
        raise ChangedDataError(
            f"{'; '.join(sorted(found))}: figures would not be comparable. Put back the data that it started with and "
            "run the same command again, or give another --out for the new data"
        )


def _difference(before: DataFile, now: DataFile) -> str:
    if before.files != now.files:
        return f"it had {before.files or 0:,} files, now {now.files or 0:,}"
    if before.bytes != now.bytes:
        return f"it had {before.bytes:,} bytes, now {now.bytes:,}"
    if before.ends_sha256 != now.ends_sha256:
        return "same size, other header" if now.files is None else "same size, other names or sizes of files"
    if before.sha256 and now.sha256 and before.sha256 != now.sha256:
        return "same size and header, other content"
    return ""


def joined(before: Files, now: Files) -> dict[str, DataFile]:
    """Merge two mappings of the same files, with the content hashes of both. They must not contradict each other."""
    both = {**now, **before}
    return {path: both[path] if both[path].sha256 else now.get(path, both[path]) for path in both}


class DataFiles:
    """The files that a cell reads, with the hashes of their contents at the first look.

    Args:
        paths: paths of the files.
        expected: their state when the run began.

    Raises:
        ChangedDataError: a file has changed since then.
        UserError: a file cannot be read.
    """

    def __init__(self, paths: Iterable[str], expected: Files) -> None:
        self._found = _with_contents(paths)
        self.expect(expected, "its run began")

    def expect(self, before: Files, since: str) -> None:
        """Raise ChangedDataError unless the files are as in `before`."""
        check_unchanged(before, self._found, since)

    def verified(self) -> dict[str, DataFile]:
        """Return them, before something that depends on them is written. Raises ChangedDataError."""
        check_unchanged(self._found, _with_contents(self._found), "this cell began")
        return self._found


def _with_contents(paths: Iterable[str]) -> dict[str, DataFile]:
    found = look_at(dict.fromkeys(paths))
    return {path: file.model_copy(update={"sha256": content_sha256(path)}) for path, file in found.items()}


def content_sha256(path: str) -> str:
    """Return the hash of a whole file, or of the names and contents of a folder's; processes hash it only once.

    Raises:
        OSError: it cannot be read.
    """
    before = state_of(path)
    entry = _entry_path(before)
    with one_at_a_time(entry.stem):
        if known := _cached(before):
            return known
        sha256 = _folder_sha256(path) if is_folder_name(path) else _file_sha256(path)
        if is_settled(before.changed_ns) and state_of(path) == before:
            keep(entry, sha256.encode())
        return sha256


def _file_sha256(path: str) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder_sha256(path: str) -> str:
    """Hash of the names below the folder, each with the hash of its content."""
    digest = hashlib.sha256()
    for entry in entries_below(path):
        digest.update(os.fsencode(f"{entry.path.removeprefix(path)}\0{_file_sha256(entry.path)}\0"))
    return digest.hexdigest()


def _cached(state: FileState) -> str:
    """Return the cached hash, or "" if it is not known."""
    try:
        return read_file(_entry_path(state)).decode("ascii")
    except (OSError, ValueError):
        return ""


def _entry_path(state: FileState) -> Path:
    name = hashlib.sha256(os.fsencode(f"{state.path}\0{state.stamp}")).hexdigest()
    return cache_folder("contents") / name
