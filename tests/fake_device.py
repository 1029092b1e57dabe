"""A device that is not there: torch's fake tensors have a device, a shape and a type, but no values and no memory.

What runs on them is what would run on a GPU, up to the backward pass, which needs a real one. Operands on two devices
are refused, and so is every read of a value by the host, since there is none. `FakeDevice` finds copies, too.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType, TracebackType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tread_bench.core.errors import error_text

DEVICE = torch.device("cuda", 0)
_COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}
_READS = (DataDependentOutputException, DynamicOutputShapeException)  # of a value, or of how many there are
# Whose functions are nobody's place: torch's, this check's, and those of the mode that changes last bits.
_NO_PLACE = (str(Path(torch.__file__).parent), __file__, str(Path(__file__).with_name("last_bit.py")))


class FakeDevice:
    """As a context, computes on a device that is not there.

    Args:
        allowed: the functions that may copy to the device, as "module:name".

    Attributes:
        found: what would fail on a GPU or keep it waiting, each with its place.
    """

    def __init__(self, allowed: Collection[str] = ()) -> None:
        self.found: list[str] = []
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._copies = _Copies(self.found, allowed)
        self._entered = ExitStack()

    def __enter__(self) -> FakeDevice:
        self._entered.enter_context(_as_there())
        self._entered.enter_context(self._fake)
        self._entered.enter_context(self._copies)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> bool:
        """What ends the attempt is kept with the copies: a read by the host, operands on two devices, any error."""
        self._entered.close()
        if not isinstance(error, Exception):
            return False
        what = f"the host reads a value ({error.func})" if isinstance(error, _READS) else f"raised {error_text(error)}"
        self.found.append(f"{what} in {_place([frame for frame, _ in walk_tb(trace)][::-1])}")
        return True

    def holding(self, tensor: Tensor) -> Tensor:
        """Return a tensor without values on the device, of the same shape and type."""
        with self._fake:
            return torch.empty(tensor.shape, dtype=tensor.dtype, device=DEVICE, requires_grad=tensor.requires_grad)

    def move(self, module: nn.Module) -> None:
        """Replace the module's parameters and buffers, as `module.to` does; tensors in other attributes stay."""
        for part in module.modules():
            for name, parameter in part._parameters.items():
                if parameter is not None:
                    part._parameters[name] = nn.Parameter(self.holding(parameter), parameter.requires_grad)
            for name, buffer in part._buffers.items():
                if buffer is not None:
                    part._buffers[name] = self.holding(buffer)


@contextmanager
def _as_there() -> Iterator[None]:
    """Let torch take the device for one that is there."""
    with (
        patch("torch.cuda.amp.common.amp_definitely_not_available", lambda: False),
        patch("torch.cuda.is_bf16_supported", lambda: True),
        patch.object(functional, "scaled_dot_product_attention", _fused_attention),
    ):
        yield


def _fused_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **options: Any
) -> Tensor:
    """Attention as a GPU computes it: without a device, torch would take the formulation that is not fused."""
    aten = torch.ops.aten
    if attn_mask is None and query.dtype in (torch.bfloat16, torch.float16):
        flash: Tensor = aten._scaled_dot_product_flash_attention(query, key, value, **options)[0]
        return flash
    efficient: Tensor = aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, True, **options)[0]
    return efficient


class _Copies(TorchDispatchMode):
    """Notes every operation that has tensors on two devices."""

    def __init__(self, found: list[str], allowed: Collection[str]) -> None:
        super().__init__()
        self.found = found
        self.allowed = allowed

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [value for value in tree_leaves((args, kwargs, result)) if isinstance(value, Tensor)]
        if func not in _COPIES:
            tensors = [tensor for tensor in tensors if tensor.ndim]  # a number on the host is an argument of a kernel
        devices = {tensor.device.type for tensor in tensors}
        if len(devices) > 1:
            place = _place(frame for frame, _ in walk_stack(sys._getframe()))
            if place not in self.allowed:
                self.found.append(f"{func} has tensors on {' and '.join(sorted(devices))} in {place}")
        return result


def _place(frames: Iterable[FrameType]) -> str:
    """The innermost function that belongs neither to torch nor to the tests' modes, as "module:name"."""
    frame = next(frame for frame in frames if not frame.f_code.co_filename.startswith(_NO_PLACE))
    return f"{frame.f_globals.get('__name__')}:{frame.f_code.co_name}"
