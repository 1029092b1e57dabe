"""Which files may be overwritten: only the program's own, in the folder it was given, and never through a link."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from tread_bench.core.errors import UserError
from tread_bench.core.names import few

_HEAD_BYTES = 2**16  # the part of a file that says which program wrote it: its head, or its end
_START_BYTES = 5  # by which a PDF and an archive are known
_OWN = re.compile(
    rb'\A(?:<!doctype html>.*?<meta name="generator" content="tread-bench">'
    rb'|<\?xml.*?<testsuites name="tread-bench (?:check|regress): '
    rb"|## tread-bench (?:check|regress): "
    rb'|.{8}\{"__metadata__".*?tread-bench (?:features |encode")'
    rb"|<\?xml.*?<dc:title>tread-bench</dc:title>"
    rb"|\x89PNG\r\n\x1a\n.*?tEXtSoftware\0tread-bench"
    rb"|<!-- tread-bench table -->\n|% tread-bench table: |tread-bench table,"
    rb'|\{\n "generator": "tread-bench (?:export|benchmarks|encode|evaluate)"'
    rb"|cell,suite,backbone,family,method,routes,rate,selector,guidance,guidance_scale,)",
    re.DOTALL,
)
SAMPLES_MARK = b"tread-bench sample"  # comment of an archive of samples, which is its end
_OWN_ENDS = (
    re.compile(rb"\A%PDF-.*/Creator \(tread-bench\)", re.DOTALL),
    re.compile(rb"\APK\x03\x04.*PK\x05\x06.{18}" + re.escape(SAMPLES_MARK) + rb"\Z", re.DOTALL),
)
_NAMED = 5  # paths that a message lists
_OTHER = "give another path, or move it away"


class OutputError(UserError):
    """A place that cannot or must not be written to; the text gives the reason."""


def is_own(path: Path) -> bool:
    """Return whether this program wrote the file, as its first bytes say; a PDF's and an archive's last.

    Own files are pages, pictures, tables, findings, exports, evaluations, feature networks, samples and encoded
    latents.

    Raises:
        OutputError: the file cannot be read.
    """
    try:
        with open(path, "rb", opener=_not_through_a_link) as file:
            head = file.read(_HEAD_BYTES)
            if _OWN.match(head):
                return True
            file.seek(max(0, os.fstat(file.fileno()).st_size - _HEAD_BYTES))
            ends = head[:_START_BYTES] + file.read()
            return any(own.match(ends) for own in _OWN_ENDS)
    except OSError as error:
        raise OutputError(f"{path} cannot be read ({error.strerror}), so it is not replaced; {_OTHER}") from None


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


def refuse_foreign(option: str, paths: Iterable[Path]) -> None:
    """Raise OutputError if one of the files exists and was not written by this program; call it before any work.

    An empty file is accepted, since nothing can be lost.
    """
    foreign = []
    for path in paths:
        refuse_irregular(path, option)
        if path.exists() and path.stat().st_size and not is_own(path):
            foreign.append(str(path))
    if foreign:
        was = "was" if len(foreign) == 1 else "were"
        named = few(foreign, _NAMED)
        raise OutputError(f"{option} {named} {was} not written by tread-bench and would be overwritten; {_OTHER}")


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


def try_file(option: str, path: Path) -> None:
    """Raise OutputError if a file cannot be written; call it before the work that produces the file."""
    refuse_irregular(path, option)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OutputError(f"{option} {path} cannot be written ({error.strerror}); give another path") from None


def open_plain(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open or create a plain file. Raises OutputError for a link or a device."""
    refuse_irregular(path)
    return open(path, mode, opener=_not_through_a_link, **options)


def _not_through_a_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
