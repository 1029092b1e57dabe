"""Archives from files that need not be trusted: torch gets a copy of the members that were checked, never the file.

Readers of zip files differ in where they look for the list of members, so what one of them has checked, another one
need not read. In a copy there is one list.
"""

from __future__ import annotations

import io
import pickle
import zipfile

import torch
from torch import Tensor

from tread_bench.core.stored.foreign import one_line, open_archive, read_member

_ZIP = b"PK\3\4"  # what torch.load takes for an archive


def members_of(content: bytes) -> dict[str, bytes]:
    """Return the members of a zip archive, by name.

    Raises:
        ValueError: it is damaged, or not to be opened (see `open_archive`), or its members are larger than it is; the
            text is one line.
    """
    with open_archive(io.BytesIO(content), len(content)) as archive:
        return {name: read_member(archive, name, len(content)) for name in archive.namelist()}


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
    if any(tensor.layout != torch.strided for tensor in found.values()):
        raise ValueError("a tensor of it is sparse; save it dense")

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
        archive = archive_of(members_of(content)) if content.startswith(_ZIP) else content
        return torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # its text advises to run what the file holds
        raise ValueError("it is damaged, or holds more than tensors") from None
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(one_line(error)) from None
