"""A counter of multiply-adds, as a context around what is computed on the meta device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry, shape_wrapper

from tread_bench.core.describe.families import Macs

_ATTENTION = ("bmm", "baddbmm", "scaled_dot_product", "flash_attention")
_SCAN = ("scan", "wkv")


class MacsCounter(TorchDispatchMode):
    """As a context, counts in `macs` what is computed, by the formulas of torch's `FlopCounterMode`.

    On the meta device a result is a shape, which takes torch longer to find than all that is done here: operations on
    the same shapes share one.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._counts = {"linear": 0, "attention": 0, "scan": 0}
        self._results: dict[Any, tuple[Any, Any]] = {}

    @property
    def macs(self) -> Macs:
        """Multiply-adds so far."""
        return Macs(**self._counts)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        given = [one for one in tree_leaves((args, options)) if isinstance(one, Tensor)]
        is_known_by_shapes = _is_pure(func) and all(one.is_meta for one in given)
        key = (func, _described(args), _described(tuple(options.items()))) if is_known_by_shapes else None
        known = self._results.get(key)
        if known is None:
            result = func(*args, **options)
            count = _count(func, args, options, result)
            tensors = [one for one in tree_leaves(result) if isinstance(one, Tensor)]
            if key is not None and tensors and all(one.is_meta for one in tensors):
                self._results[key] = result, count
                result = tree_map_only(Tensor, _another, result)
        else:
            result, count = tree_map_only(Tensor, _another, known[0]), known[1]
        if count is not None:
            kind, macs = count
            self._counts[kind] += macs
        return result


@cache
def _is_pure(func: Any) -> bool:
    """Whether an operation returns new tensors, and changes none."""
    schema = getattr(func, "_schema", None)
    return schema is not None and not any(one.alias_info for one in (*schema.arguments, *schema.returns))


def _described(value: Any) -> Any:
    """All of an argument that a result without values depends on."""
    if isinstance(value, Tensor):
        return value.shape, value.stride(), value.dtype, value.is_meta
    if isinstance(value, list | tuple):
        return tuple(map(_described, value))
    return type(value), value  # 1 and 1.0 give other types of results


def _another(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def _count(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> tuple[str, int] | None:
    """Kind and multiply-adds of an operation, of two flops each; None: it has no formula."""
    operation = getattr(func, "_overloadpacket", func)
    formula = _FORMULAS.get(operation) or flop_registry.get(operation)
    if formula is None:
        return None
    name = str(operation)
    kind = "linear"
    if any(part in name for part in _ATTENTION):
        kind = "attention"
    elif any(part in name for part in _SCAN):
        kind = "scan"
    return kind, formula(*args, **kwargs, out_val=result) // 2


@shape_wrapper
def _convolution_backward(grad_shape, x_shape, w_shape, *args, out_shape, **kwargs):  # type: ignore[no-untyped-def]
    """Flops of a convolution's gradients, each as many as its forward pass; torch's own formula ignores groups."""
    gradients = sum(shape is not None for shape in out_shape[:2])
    return gradients * 2 * math.prod(grad_shape) * math.prod(w_shape[1:])


_FORMULAS = {torch.ops.aten.convolution_backward: _convolution_backward}
