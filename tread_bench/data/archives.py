"""Archives from files that need not be trusted: torch gets a copy of the members that were checked, never the file.

Readers of zip files differ in where they look for the list of members, so what one of them has checked, another one
need not read. In a copy there is one list.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import zipfile

import torch
from torch import Tensor

_ZIP = b"PK\3\4"  # what torch.load takes for an archive
_MEMBERS = re.compile(
    r"data\.pkl|data/\d+|version|byteorder|\.format_version|\.storage_alignment|\.data/(version|serialization_id)"
)
_PROTOCOL = 2
_LEGACY_PICKLES = 5  # a number, a version, the machine, the tensors, and the names of their storages
_CALLED = re.compile(r"collections OrderedDict|torch \w+Storage|torch\._utils _rebuild_(tensor_v2|parameter)")
_AGAIN = ("GLOBAL", "BINUNICODE", "SHORT_BINSTRING")  # names and texts, of which nothing large is made


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
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(_first_line(error)) from None
    return members


def archive_of(members: dict[str, bytes]) -> bytes:
    """Return a new zip archive of these members, none of them compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def load_tensors(content: bytes) -> dict[str, Tensor]:
    """Return the tensors of a dictionary that torch.save wrote, on the CPU; no code in it is run.

    Raises:
        ValueError: it is something else, or its tensors are larger than the file; the text is one line.
    """
    found = _unpickled(content)
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise ValueError("not a dictionary of tensors")

    # Shapes and storages are as large as a file says, whatever it holds.
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in found.values()}
    if sum(storages.values()) > len(content):
        raise ValueError("its tensors are larger than the file")
    for name, tensor in found.items():
        if tensor.nbytes > tensor.untyped_storage().nbytes():
            raise ValueError(f"tensor {str(name)!r} has shape {tuple(tensor.shape)}, more than the file stores")
    return {str(name): tensor.detach() for name, tensor in found.items()}


def _unpickled(content: bytes) -> object:
    try:
        if content.startswith(_ZIP):
            members = members_of(content)
            content = archive_of(members)
            pickles = [io.BytesIO(member) for name, member in members.items() if _checked_name(name) == "data.pkl"]
        else:
            pickles = [io.BytesIO(content)] * _LEGACY_PICKLES  # one after another
        for stream in pickles:
            _check_pickle(stream)
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # its text advises to run what the file holds
        raise ValueError("it is damaged, or holds more than tensors") from None
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(_first_line(error)) from None


def _checked_name(name: str) -> str:
    inside = name.partition("/")[2]
    if not _MEMBERS.fullmatch(inside):
        raise ValueError(f"torch.save writes no member {name!r}")
    return inside


def _check_pickle(stream: io.BytesIO) -> None:
    """Raise ValueError unless only what tensors are built of is called, and only names and texts occur again.

    torch would make a bytearray of any size, and print what it refuses: tuples that hold another one twice, 40 deep,
    are a terabyte of text.
    """
    stored: dict[object, str] = {}
    before = ""
    for opcode, value, _ in pickletools.genops(stream):
        if opcode.name == "PROTO" and value != _PROTOCOL:
            raise ValueError(f"it has pickle protocol {value}, and torch.save writes {_PROTOCOL}")
        if opcode.name == "GLOBAL" and not _CALLED.fullmatch(str(value)):
            raise ValueError(f"it calls {str(value).replace(' ', '.')!r}, which no tensor needs")
        if opcode.name in ("BINPUT", "LONG_BINPUT"):
            stored[value] = before
        if opcode.name in ("BINGET", "LONG_BINGET") and stored.get(value) not in _AGAIN:
            raise ValueError("it has one object twice; save copies of it")
        before = opcode.name


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
