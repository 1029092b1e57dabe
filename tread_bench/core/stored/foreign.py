"""Files that others made: plain files of at most a stated size, and archives that unpack to at most a stated size.

Whoever opens files here waits for no pipe, reads no device to its end, and unpacks no more than an archive declares.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, BinaryIO

from tread_bench.core.errors import UserError, printable

DOCUMENT_BYTES = 2**32  # of JSON, captions and other text
IMAGE_BYTES = 2**30  # of an image file
WEIGHTS_BYTES = 2**36  # of a network
_LONGEST_REASON = 160  # characters
_HEAD_BYTES = 4096  # of a page
_FIGURES = re.compile(r'<meta name="figures" content="([^"]*)">')


def open_file(path: str | Path, most_bytes: int | None = None) -> BufferedReader:
    """Open a plain file for reading, or what a link to one points to.

    Args:
        most_bytes: that it may have; None: any number.

    Raises:
        OSError: it cannot be opened, is a folder, a pipe, a socket or a device, or is larger.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # waits for no writer of a pipe
    about = os.fstat(handle)
    reason = ""
    if not stat.S_ISREG(about.st_mode):
        reason = "it is not a file"
    elif most_bytes is not None and about.st_size > most_bytes:
        reason = f"it has {about.st_size:,} bytes, and a file of this kind has at most {most_bytes:,}"
    if reason:
        os.close(handle)
        raise OSError(errno.EINVAL, reason, str(path))
    return open(handle, "rb")


def read_file(path: str | Path, most_bytes: int = DOCUMENT_BYTES) -> bytes:
    """Return the content of a plain file. Raises OSError as `open_file` does."""
    with open_file(path, most_bytes) as file:
        return file.read()


def check_file(path: str | Path) -> None:
    """Raise OSError as `open_file` does: before a library opens the file by its name."""
    open_file(path).close()


def open_archive(source: str | Path | BinaryIO, most_bytes: int) -> zipfile.ZipFile:
    """Open a zip archive, whose members `open_member` reads.

    Args:
        source: path of a plain file, or a content.
        most_bytes: that its members may have together, unpacked.

    Raises:
        OSError: as `open_file` does.
        ValueError: it is no such archive, or is damaged, or its members are larger. The text is one line.
    """
    if isinstance(source, str | Path):
        check_file(source)
    try:
        archive = zipfile.ZipFile(source)
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(one_line(error)) from None
    if (total := sum(member.file_size for member in archive.infolist())) > most_bytes:
        raise ValueError(f"its members have {total:,} bytes, and may have {most_bytes:,} together")
    return archive


@contextmanager
def open_member(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """Open a member of an archive, to be read by sizes; its checksum is compared at its end.

    Raises:
        KeyError: there is no such member.
        ValueError: from the body as well, where the member is damaged; the text is one line.
    """
    member = archive.getinfo(name)
    try:
        with archive.open(member) as stream:
            yield stream
    except UserError:
        raise
    except Exception as error:  # a damaged member may raise anything
        raise ValueError(one_line(error)) from None


def read_member(archive: zipfile.ZipFile, name: str, most_bytes: int) -> bytes:
    """Return the content of a member. Raises what `open_member` does; ValueError also where it is larger."""
    size = archive.getinfo(name).file_size
    if size > most_bytes:
        raise ValueError(f"it has {size:,} bytes, and such a member has at most {most_bytes:,}")
    with open_member(archive, name) as stream:
        return stream.read(size)


def one_line(error: Exception) -> str:
    """Return what the reader of a damaged file says, shortened: it may quote what it read."""
    text = printable(str(error).strip().partition("\n")[0]) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"


def pictures_of(page: Path) -> list[str] | None:
    """Return the names of the pictures that were drawn with a page; None if it does not name them."""
    try:
        with open_file(page) as file:
            match = _FIGURES.search(file.read(_HEAD_BYTES).decode(errors="replace"))
    except OSError:
        return None
    return match.group(1).split() if match else None
