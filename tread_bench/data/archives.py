"""Tensors from files that need not be trusted: no code in them is run."""

from __future__ import annotations

import io
import pickle

import torch
from torch import Tensor

from tread_bench.core.stored.foreign import one_line, open_archive

_ZIP = b"PK\3\4"  # what torch.load takes for an archive


def load_tensors(content: bytes) -> dict[str, Tensor]:
    """Return the tensors of a dictionary that torch.save wrote, on the CPU.

    Raises:
        ValueError: it is something else, or its tensors are larger than the file; the text is one line.
    """
    try:
        if content.startswith(_ZIP):
            open_archive(io.BytesIO(content), len(content)).close()
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # its text advises to run what the file holds
        raise ValueError("it is damaged, or holds more than tensors") from None
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(one_line(error)) from None
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise ValueError("not a dictionary of tensors")
    for name, tensor in found.items():
        if tensor.layout != torch.strided:
            raise ValueError("a tensor of it is sparse; save it dense")
        stored = 0 if tensor.is_meta else min(tensor.untyped_storage().nbytes(), len(content))
        if tensor.nbytes > stored:
            raise ValueError(f"tensor {str(name)!r} has shape {tuple(tensor.shape)}, more than the file stores")
    return {str(name): tensor.detach() for name, tensor in found.items()}
