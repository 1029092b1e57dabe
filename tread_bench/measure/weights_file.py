"""Files of weights that need not be trusted: named tensors, or an error."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.core.stored.foreign import WEIGHTS_BYTES, read_file
from tread_bench.data.archives import load_tensors


class Weights(NamedTuple):
    """Tensors by name, and the SHA-256 of the file that they are from."""

    tensors: dict[str, Tensor]
    sha256: str


def read_weights(path: str | Path) -> Weights:
    """Return the tensors of a file. Raises OSError, or ValueError with what is wrong in one line."""
    content = read_file(path, WEIGHTS_BYTES)
    return Weights(tensors_of(content), hashlib.sha256(content).hexdigest())


@contextmanager
def named_where_wrong(path: str | Path, network: str, way_out: str) -> Iterator[None]:
    """Raises UserError where weights are not read, or not loaded into the network, by what is wrong and the way out."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot read the weights of {network} ({error.strerror}); {way_out}") from None
    except (ValueError, RuntimeError) as error:
        reason = textwrap.shorten(str(error), 160, placeholder="…")
        raise UserError(f"{path}: not the weights of {network} ({reason}); {way_out}") from None


def tensors_of(content: bytes) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, or of a state dict written by torch.save, on the CPU; no code in it is
    run.

    Raises:
        ValueError: it is neither, or contains anything but finite tensors; the text is one line.
    """
    # A safetensors file begins with the length of a JSON object, and the object.
    is_safetensors = content[8:9] == b"{" and int.from_bytes(content[:8], "little") <= len(content) - 8
    try:
        found = load(content) if is_safetensors else load_tensors(content)
    except KeyError as error:  # of safetensors, by the name of the type
        raise ValueError(f"not a file of weights: tensors of type {error} are not read; store float32") from None
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"not a file of weights, or not safe to load: {error}") from None
    for name, tensor in found.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(f"tensor {name!r} contains NaN or infinite values")
    return found
