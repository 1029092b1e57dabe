"""Files are plain files, folders are folders, and nothing is written through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from tread_bench.core.errors import UserError

_OTHER = "give another path, or move it away"


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
            raise OutputError(
                f"{folder} is a link to {os.readlink(folder)}, and nothing is written through a link out of the "
                "folder; move that folder here, or give another path"
            )


def make_below(root: Path, folder: Path) -> None:
    """Make a folder and its parents below `root`. Raises FileNotFoundError if `root` does not exist."""
    depth = len(folder.relative_to(root).parts)
    for place in reversed([folder, *folder.parents][:depth]):
        place.mkdir(exist_ok=True)


def open_plain(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open or create a plain file. Raises OutputError for a link or a device."""
    refuse_irregular(path)
    return open(path, mode, opener=_not_through_a_link, **options)


def _not_through_a_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
