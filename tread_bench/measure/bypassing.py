"""Blocks of any network, called without some of their image tokens, to count what they cost on a route.

Nothing here chooses tokens or computes: on the meta device, which rows a block is called without makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tread_bench.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Call:
    """What one block was called with, and what it returned, as nested tuples and dictionaries."""

    given: tuple[tuple[Any, ...], dict[str, Any]]
    returned: Any


@torch.no_grad()
def record(network: nn.Module, blocks: Sequence[nn.Module], inputs: Mapping[str, Any]) -> list[Call]:
    """Run the network and return the call of each block. Raises UserError."""
    calls: list[tuple[int, Call]] = []

    def note(number: int, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any) -> None:
        calls.append((number, Call((args, kwargs), returned)))

    handles = [block.register_forward_hook(partial(note, n), with_kwargs=True) for n, block in enumerate(blocks)]
    with removed(handles):
        network(**inputs)
    if [number for number, _ in calls] != list(range(len(blocks))):
        raise UserError(f"{type(network).__name__} does not call its blocks once each and in order: leave --route out")
    return [call for _, call in calls]


@contextmanager
def bypassing(
    blocks: Sequence[nn.Module], whole: Sequence[Call], smaller: Sequence[Call], step: int, bypassed: Sequence[int]
) -> Iterator[None]:
    """While it is entered, each block is called without so many image tokens, and zeros stand for them behind it.

    Args:
        whole, smaller: calls with all image tokens of two images; the first one's has `step` tokens more.
        bypassed: tokens that bypass each block.

    Raises:
        UserError: a block on a route is told how large the image is, so that it needs every token.
    """

    def leave(n: int, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def without(value: Any, one: Any, other: Any) -> Any:
            for axis in _token_axes(n, one, other, step):
                value = value.narrow(axis, 0, value.shape[axis] - bypassed[n])
            return value

        return _over(without, (args, kwargs), whole[n].given, smaller[n].given)

    def come_back(n: int, block: nn.Module, args: tuple[Any, ...], returned: Any) -> Any:
        def complete(value: Any, one: Any, other: Any) -> Any:
            for axis in _token_axes(n, one, other, step):
                missing = [bypassed[n] if a == axis else size for a, size in enumerate(value.shape)]
                value = torch.cat([value, value.new_zeros(missing)], axis)
            return value

        return _over(complete, returned, whole[n].returned, smaller[n].returned)

    handles = []
    for n, block in enumerate(blocks):
        if bypassed[n]:
            handles.append(block.register_forward_pre_hook(partial(leave, n), with_kwargs=True))
            handles.append(block.register_forward_hook(partial(come_back, n)))
    with removed(handles):
        yield


def _token_axes(block: int, one: Any, other: Any, step: int) -> list[int]:
    """Axes of a tensor with a row per image token: those that are `step` longer. Raises UserError."""
    if not isinstance(one, Tensor):
        if one != other:
            raise UserError(
                f"block {block} is told how large the image is ({one}, and {other} of a smaller one), so that it needs "
                "every token: route around it, or leave --route out"
            )
        return []
    longer = [axis for axis, (a, b) in enumerate(zip(one.shape, other.shape, strict=True)) if a != b]
    if any(one.shape[axis] - other.shape[axis] != step for axis in longer):
        raise UserError(
            f"block {block} is called with {tuple(one.shape)}, and {tuple(other.shape)} of a smaller image, which is "
            "not a row per token: route around it, or leave --route out"
        )
    return longer


def _over(function: Callable[..., Any], *values: Any) -> Any:
    """Apply a function to the leaves of nested containers of one structure."""
    first = values[0]
    if isinstance(first, dict):
        return {key: _over(function, *(value[key] for value in values)) for key in first}
    if isinstance(first, list | tuple):
        return type(first)(_over(function, *parts) for parts in zip(*values, strict=True))
    return function(*values)


@contextmanager
def removed(handles: Sequence[RemovableHandle]) -> Iterator[None]:
    """Remove the hooks at the end."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
