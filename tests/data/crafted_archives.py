"""Zip archives that two readers may read in two ways: `clean` members for one of them, `evil` ones for another."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

Members = dict[str, bytes]
STORED, DEFLATED = 0, 8
DESCRIPTOR = 8  # flag


@dataclass(frozen=True)
class Entry:
    """A member, with what its two headers say of it; None: the truth."""

    name: str
    content: bytes
    method: int = STORED
    flags: int = 0
    local_method: int | None = None
    size: int | None = None
    comment: bytes = b""

    @cached_property
    def packed(self) -> bytes:
        deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
        return self.content if self.method == STORED else deflate.compress(self.content) + deflate.flush()

    def sizes(self) -> tuple[int, int, int]:
        size = len(self.content) if self.size is None else self.size
        packed = len(self.packed) if self.size is None or self.method == DEFLATED else self.size
        return zlib.crc32(self.content), packed, size

    def local(self) -> bytes:
        name = self.name.encode()
        method = self.method if self.local_method is None else self.local_method
        written = (0, 0, 0) if self.flags & DESCRIPTOR else self.sizes()
        head = struct.pack("<4s5H3I2H", b"PK\3\4", 20, self.flags, method, 0, 33, *written, len(name), 0)
        tail = struct.pack("<4s3I", b"PK\7\x08", *self.sizes()) if self.flags & DESCRIPTOR else b""
        return head + name + self.packed + tail

    def central(self, offset: int) -> bytes:
        name = self.name.encode()
        return struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 20, 20, self.flags, self.method, 0, 33, *self.sizes(), len(name), 0,
            len(self.comment), 0, 0, 0, offset,
        ) + name + self.comment  # fmt: skip


def entries(members: Members, **about: int) -> list[Entry]:
    return [Entry(name, content, **about) for name, content in members.items()]


def body(found: list[Entry], start: int = 0) -> tuple[bytes, bytes]:
    """The members as they lie in a file from `start` on, and their list."""
    local, central = b"", b""
    for entry in found:
        central += entry.central(start + len(local))
        local += entry.local()
    return local, central


def end(count: int, size: int, offset: int) -> bytes:
    return struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, size, offset, 0)


def archive(found: list[Entry], start: int = 0) -> bytes:
    local, central = body(found, start)
    return local + central + end(len(found), len(central), start + len(local))


def by_the_locator(clean: list[Entry], evil: list[Entry]) -> bytes:
    """The end names the clean list; the zip64 locator before it, in a comment, leads to the evil one."""
    local, central = body(evil)
    offset = len(local) + len(central)
    about = (b"PK\6\6", 44, 45, 45, 0, 0, len(evil), len(evil), len(central), len(local))
    before = local + central + struct.pack("<4sQ2H2I4Q", *about)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, offset, 1)
    local, central = body([*clean[:-1], replace(clean[-1], comment=locator)], len(before))
    return before + local + central + end(len(clean), len(central), len(before) + len(local))


def _first(clean: Members, **about: object) -> bytes:
    """The archive with one entry that says something else."""
    first, *others = entries(clean)
    return archive([replace(first, **about), *others])  # type: ignore[arg-type]


@cache
def _bomb(name: str) -> Entry:
    """A small file of a large member."""
    return Entry(name, bytes(2**29), DEFLATED)


def _with_a_bomb(members: Members) -> list[Entry]:
    first, *others = entries(members)
    return [_bomb(first.name), *others]


CRAFTED: dict[str, Callable[[Members, Members], bytes]] = {
    "locator": lambda clean, evil: by_the_locator(entries(clean), entries(evil)),
    "locator to a bomb": lambda clean, evil: by_the_locator(entries(clean), _with_a_bomb(evil)),
    "clean before evil": lambda clean, evil: archive(entries(clean)) + archive(entries(evil)),
    "a name twice": lambda clean, evil: archive([*entries(clean), *entries(evil)]),
    "compressed": lambda clean, evil: archive(entries(clean, method=DEFLATED)),
    "a bomb": lambda clean, evil: archive(_with_a_bomb(clean)),
    "compressed by the local header": lambda clean, evil: _first(clean, local_method=DEFLATED),
    "data descriptors": lambda clean, evil: archive(entries(clean, flags=DESCRIPTOR)),
    "larger than the file": lambda clean, evil: _first(clean, size=2**31),
    "no end": lambda clean, evil: archive(entries(clean))[:-22],
}
