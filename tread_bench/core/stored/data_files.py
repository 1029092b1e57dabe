"""The files that cells read, identified by content: a file that changed since the run began is refused by name.

A content is hashed once, and the hash is cached by path, size, inode and times. A folder that is read as a whole
(`data_paths.folder_name`) counts as one file, whose hash is over the names and contents of all files below it.
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

SETTLED_S = 2.0  # a file changed this recently may change again with the same time stamp

Files = Mapping[str, DataFile]  # by path


class ChangedDataError(UserError):
    """A file that changed since the run, or the cell, began."""


class FileState(NamedTuple):
    """What changes when a file, or one in a folder, is written to: what is known of a content is cached by it."""

    path: str
    bytes: int
    stamp: str  # of a folder: hash of the names and stamps of its files
    changed_ns: int  # the latest of a folder


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
        return FileState(real, about.st_size, stamp_of(about), about.st_ctime_ns)
    digest = hashlib.sha256()
    size = latest = 0
    for entry in entries_below(path):
        about = entry.stat()
        digest.update(os.fsencode(f"{entry.path.removeprefix(path)}\0{stamp_of(about)}\0"))
        size += about.st_size
        latest = max(latest, about.st_ctime_ns)
    return FileState(real, size, digest.hexdigest(), latest)


def contents_of(paths: Iterable[str]) -> dict[str, DataFile]:
    """Return what identifies each file. Raises UserError: one cannot be read."""
    found = {}
    for path in dict.fromkeys(paths):
        with named_where_unreadable(path):
            found[path] = DataFile(bytes=state_of(path).bytes, sha256=content_sha256(path))
    return found


def unread_bytes(paths: Iterable[str]) -> int:
    """Return how many bytes must be read to identify the files. Raises UserError: one cannot be read."""
    unread = 0
    for path in dict.fromkeys(paths):
        with named_where_unreadable(path):
            state = state_of(path)
        if not _entry(state).exists():
            unread += state.bytes
    return unread


def check_unchanged(before: Files, now: Files, since: str) -> None:
    """Raise ChangedDataError, naming each file that is in both mappings and differs."""
    changed = []
    for path in sorted(before.keys() & now.keys()):
        if before[path].sha256 != now[path].sha256:
            changed.append(f"{path} has changed since {since}")
    if changed:
        raise ChangedDataError(
            f"{'; '.join(changed)}: figures would not be comparable. Put back the data that it started with and run "
            "the same command again, or give another --out for the new data"
        )


def contents_as_before(paths: Iterable[str], expected: Files) -> dict[str, DataFile]:
    """Return what identifies each file. Raises ChangedDataError: one has changed since the run began, as `expected`."""
    found = contents_of(paths)
    check_unchanged(expected, found, "its run began")
    return found


def content_sha256(path: str) -> str:
    """Return the hash of a whole file, or of the names and contents of a folder's; processes hash it only once.

    Raises:
        OSError: it cannot be read.
    """
    before = state_of(path)
    entry = _entry(before)
    with one_at_a_time(entry.name):
        try:
            return read_file(entry).decode("ascii")
        except (OSError, ValueError):  # it is not known
            sha256 = _folder_sha256(path) if is_folder_name(path) else _file_sha256(path)
        if is_settled(before.changed_ns) and state_of(path) == before:
            keep(entry, sha256.encode())
        return sha256


def _entry(state: FileState) -> Path:
    """The file of the cache that has the hash of a content."""
    return cache_folder("contents") / hashlib.sha256(os.fsencode(f"{state.path}\0{state.stamp}")).hexdigest()


def _file_sha256(path: str) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder_sha256(path: str) -> str:
    """Hash of the names below the folder, each with the hash of its content."""
    digest = hashlib.sha256()
    for entry in entries_below(path):
        digest.update(os.fsencode(f"{entry.path.removeprefix(path)}\0{_file_sha256(entry.path)}\0"))
    return digest.hexdigest()
