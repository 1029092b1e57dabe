"""Zip archives that two readers may read in two ways: `clean` members for one of them, `evil` ones for another."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from collections.abc import Callable

Members = dict[str, bytes]


def archive(*parts: Members, method: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    """The members of all parts, one after the other; the last one has the comment."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file, warnings.catch_warnings(action="ignore"):  # of a name twice
        for members in parts:
            for name, content in members.items():
                file.writestr(name, content)
        file.filelist[-1].comment = comment
    return buffer.getvalue()


def by_the_locator(clean: Members, evil: Members) -> bytes:
    """The end names the clean list; the zip64 locator before it, in a comment, leads to the evil one."""
    whole = archive(evil)
    count, size, offset = struct.unpack("<H2I", whole[-12:-2])
    before = whole[:-22]
    about = (b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, offset)
    before += struct.pack("<4sQ2H2I4Q", *about)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(whole) - 22, 1)
    return before + archive(clean, comment=locator)


def with_a_bomb(members: Members) -> Members:
    """The first member is half a GiB of zeros."""
    return {**members, next(iter(members)): bytes(2**29)}


CRAFTED: dict[str, Callable[[Members, Members], bytes]] = {
    "locator": by_the_locator,
    "clean before evil": lambda clean, evil: archive(clean) + archive(evil),
    "a name twice": lambda clean, evil: archive(clean, evil),
    "a bomb": lambda clean, evil: archive(with_a_bomb(clean), method=zipfile.ZIP_DEFLATED),
}
