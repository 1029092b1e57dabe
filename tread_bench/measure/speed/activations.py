"""Activations of a training step: what autograd keeps from the forward pass for the backward pass.

The count is of whole storages, each once, whatever its number of views. The parameters' are left out, since they are
there anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple
from unittest.mock import patch

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint

_CHECKPOINT = "tread_bench.model.backbone.checkpoint"


class Activations(NamedTuple):
    """Bytes that are kept until the backward pass, and the most that one block adds when it is computed again in it, 0
    without gradient checkpointing.
    """

    kept: int
    recomputed: int


def count_activations(network: nn.Module, loss: Callable[[], Tensor]) -> Activations:
    """Count the activations of one forward pass.

    Args:
        network: whose parameters and buffers do not count.
        loss: computes the loss; what it keeps is freed when this returns.
    """
    # Count what is saved, and what gradient checkpointing keeps in place of a block's activations: its inputs.
    own = {StorageWeakRef(tensor.untyped_storage()) for tensor in (*network.parameters(), *network.buffers())}
    saved = _Saved(own)
    recomputed = [0]

    def checkpointed(run: Callable[..., Any], *inputs: Any, use_reentrant: bool) -> Any:
        tensors = [*_tensors(inputs)]
        for tensor in tensors:
            saved.note(tensor)
        # What the block saves for its own backward pass, beside its inputs, seen in a run that is thrown away.
        block = _Saved(own | {StorageWeakRef(tensor.untyped_storage()) for tensor in tensors})
        with block:
            outputs = run(*inputs)
        recomputed.append(block.bytes_alive())
        del outputs
        return checkpoint(run, *inputs, use_reentrant=use_reentrant)

    with saved, patch(_CHECKPOINT, checkpointed):
        result = loss()
    kept = saved.bytes_alive()
    del result
    return Activations(kept, max(recomputed))


class _Saved(saved_tensors_hooks):
    """As a context, notes what autograd saves."""

    def __init__(self, ignored: set[StorageWeakRef]) -> None:
        super().__init__(self._save, lambda tensor: tensor)
        self._ignored = ignored
        self._bytes: dict[StorageWeakRef, int] = {}

    def note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        reference = StorageWeakRef(storage)
        if reference not in self._ignored:
            self._bytes[reference] = storage.nbytes()

    def bytes_alive(self) -> int:
        """What still needs its memory: a part of the graph that leads to nothing is gone."""
        return sum(size for reference, size in self._bytes.items() if not reference.expired())

    def _save(self, tensor: Tensor) -> Tensor:
        self.note(tensor)
        return tensor.detach()  # the tensor itself would keep its own graph alive for ever


def _tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in a block's inputs, such as a `TokenState`."""
    if isinstance(value, Tensor):
        yield value
    elif is_dataclass(value):
        for one in fields(value):
            yield from _tensors(getattr(value, one.name))
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for part in value:
            yield from _tensors(part)
