"""Weights that are kept to be evaluated again: one safetensors file per iteration, identified by its hash.

The hash covers the file's metadata, which name the cell of the weights and their iteration. Of a network with adapters,
these alone are kept.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from safetensors.torch import load, save
from torch import nn

from tread_bench.core.stored.files import StoreError, write_atomically
from tread_bench.core.stored.foreign import WEIGHTS_BYTES, read_file
from tread_bench.model.network import Network


def save_weights(folder: Path, iteration: int, network: Network) -> str:
    """Write `<iteration>.safetensors` atomically; its SHA-256."""
    state = {
        f"{part}.{name}": tensor.detach().cpu().contiguous().clone()
        for part, module in _parts(network).items()
        for name, tensor in module.state_dict().items()
        if not network.backbone.adapters or name in network.backbone.adapters
    }
    payload = save(state)
    folder.mkdir(exist_ok=True)
    write_atomically(weights_path(folder, iteration), payload)
    return hashlib.sha256(payload).hexdigest()


def load_weights(folder: Path, iteration: int, sha256: str, network: Network) -> None:
    """Read kept weights into a network of the same sizes.

    Raises:
        StoreError: the file is missing, or is not the one that was written.
    """
    path = weights_path(folder, iteration)
    try:
        payload = read_file(path, WEIGHTS_BYTES)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); train its cell again") from None
    if hashlib.sha256(payload).hexdigest() != sha256:
        raise StoreError(
            f"{path} is damaged or another file: its sha256 is not the recorded one; put back what the run wrote, or "
            "train its cell again"
        )
    state = load(payload)
    for part, module in _parts(network).items():
        prefix = f"{part}."
        kept = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        module.load_state_dict(kept, strict=not network.backbone.adapters)


def _parts(network: Network) -> dict[str, nn.Module]:
    """The tensors that a network is evaluated with, without auxiliary losses."""
    return {"backbone": network.backbone, "method": network.method}


def weights_path(folder: Path, iteration: int) -> Path:
    """Return the file of an iteration's weights in the folder `weights` of a cell."""
    return folder / f"{iteration}.safetensors"
