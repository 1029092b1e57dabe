"""Archives from files that need not be trusted: torch gets a copy of the members that were checked, never the file.

Readers of zip files differ in where they look for the list of members, so what one of them has checked, another one
need not read. In a copy there is one list.
"""

from __future__ import annotations

import io
import pickle
import struct
import warnings
import zipfile

import torch

_BROKEN = (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, struct.error, ValueError)
_UNREADABLE = (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


def members_of(content: bytes) -> dict[str, bytes]:
    """Return the members of a zip archive, by name.

    Raises:
        ValueError: it is damaged, or a name occurs twice, leads elsewhere or is of a folder, or the members are
            compressed, or more than the archive holds; the text is one line.
    """
    members: dict[str, bytes] = {}
    seen: set[str] = set()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            # Nothing is unpacked before all that is said of sizes is known.
            infos = archive.infolist()
            if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
                raise ValueError("it is compressed, which torch.save never does: it could fill the memory")
            if sum(info.file_size for info in infos) > len(content):
                raise ValueError("its members are larger than the archive")

            for info in infos:
                name = info.filename
                if not {"", ".", ".."}.isdisjoint(name.split("/")) or "\\" in name:
                    raise ValueError(f"{name!r} is not the name of a member")
                if name.casefold() in seen:
                    raise ValueError(f"the name {name!r} occurs twice in the archive")
                seen.add(name.casefold())
                members[name] = archive.read(info)
    except _BROKEN as error:
        raise ValueError(_first_line(error)) from None
    return members


def archive_of(members: dict[str, bytes]) -> bytes:
    """Return a new zip archive of these members, none of them compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def load_tensors(content: bytes) -> object:
    """Return what torch.save wrote, on the CPU: tensors, numbers, texts and containers of these; no code in it is run.

    Raises:
        ValueError: it is something else; the text is one line.
    """
    if content.startswith(b"PK"):
        content = archive_of(members_of(content))
    try:
        with warnings.catch_warnings():  # of sparse tensors, which callers refuse
            warnings.simplefilter("ignore", UserWarning)
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # its text advises to run what the file holds
        raise ValueError("it is damaged, or holds more than tensors and plain containers") from None
    except _UNREADABLE as error:
        raise ValueError(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
