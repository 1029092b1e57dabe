"""Data paths as a suite writes them: files, folders and globs, and the files that they name."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic

from tread_bench.core.errors import UserError

_NEVER_DATA = frozenset(  # of macOS, Windows, NAS and file systems
    ["__macosx", "@eadir", "#recycle", "$recycle.bin", "lost+found", "thumbs.db", "desktop.ini"]
)


def is_data(name: str) -> bool:
    """Return whether a path may be a user's data: no part of it begins with a dot, or is what systems leave behind.

    Args:
        name: below the folder, or in the archive, that the user named.
    """
    parts = name.replace(os.sep, "/").removeprefix("./").split("/")
    return not any(part.startswith(".") or part.lower() in _NEVER_DATA for part in parts)


def expanded(paths: Sequence[str], suffixes: tuple[str, ...]) -> list[str]:
    """Return the files that the entries of a suite name, each once.

    - A file is taken as it is.
    - A folder stands for all files below it that have one of these suffixes, in the order of their names.
    - A glob (`*`, `?`, `[...]`, `**`) stands for what matches it, in the order of the names.

    An entry that matches nothing stays as it is, and a folder without such files becomes the pattern of their names
    (`train/*{.parquet,.pq}`), so that opening it reports it.

    Args:
        suffixes: in lower case, such as `(".jpg", ".jpeg")`; upper and lower case of names make no difference.

    Raises:
        UserError: a folder cannot be read.
    """
    return list(dict.fromkeys(file for entry in paths for file in _files_of(entry, suffixes)))


def _files_of(entry: str, suffixes: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for path in matches(entry):
        if not os.path.isdir(path):
            found.append(path)
            continue
        with named_where_unreadable(path):
            found += (below.path for below in entries_below(path) if below.name.lower().endswith(suffixes))
    pattern = suffixes[0] if len(suffixes) == 1 else f"{{{','.join(suffixes)}}}"
    return found or [os.path.join(entry, f"*{pattern}") if os.path.isdir(entry) else entry]


@contextmanager
def named_where_unreadable(path: str) -> Iterator[None]:
    """Raises UserError, which names the file or folder, in place of OSError."""
    try:
        yield
    except OSError as error:
        where = f"{error.filename or path} cannot be read ({error.strerror})"
        raise UserError(f"{where}; put it back, make it readable, or name another") from None


def matches(entry: str) -> list[str]:
    """Return what exists under this name, or matches it as a glob, in the order of the names; else the entry itself."""
    if os.path.lexists(entry) or not has_magic(entry):
        return [entry]
    return sorted(path for path in glob(entry, recursive=True) if is_data(os.path.basename(path))) or [entry]


def all_matches(entries: Iterable[str]) -> list[str]:
    """Return what the entries name, one after the other; see `matches`."""
    return [path for entry in entries for path in matches(entry)]


def folder_name(path: str) -> str:
    """Return the path with a separator at its end, by which a folder that is read as a whole is known."""
    return os.path.join(path, "")


def is_folder_name(path: str) -> bool:
    """Return whether a path is written as a folder's: with a separator at its end."""
    return path.endswith(os.sep)


def is_missing(path: str) -> bool:
    """Return whether there is no such file, or no such folder where the path is written as a folder's."""
    return not (os.path.isdir if is_folder_name(path) else os.path.isfile)(path)  # unlike Path's, accepts long names


def entries_below(folder: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[os.DirEntry[str]]:
    """Yield all files in a folder and below, in the order of their names; what is never data is left out.

    Links are followed.

    Args:
        above: device and inode of the folders that contain this one.

    Raises:
        OSError: a folder cannot be read, or is a link to one that contains it.
    """
    about = os.stat(folder)
    here = (about.st_dev, about.st_ino)
    if here in above:
        raise OSError(errno.ELOOP, "a link to a folder that contains it", folder)
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if not is_data(entry.name):
            continue
        if entry.is_dir():
            yield from entries_below(entry.path, above | {here})
        else:
            yield entry
