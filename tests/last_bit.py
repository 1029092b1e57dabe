"""A mode in which two different products of matrices never agree to the last bit, as on some processors they do not.

BLAS chooses a kernel by operator, shapes and strides, and kernels sum in different orders. Whether two of them happen
to agree depends on the processor. Under this mode they differ on every processor; the same call made twice stays equal.
`TREAD_BENCH_LAST_BIT=1 pytest` runs tests under it. It does not reach other threads and processes.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "_addmm_activation"}
PRODUCTS |= {"convolution", "convolution_backward", "mkldnn_convolution", "mkldnn_linear", "_cdist_forward"}
ATTENTION = "_scaled_dot_product_"
INTEGER_OF_SIZE = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class LastBit(TorchDispatchMode):
    """Flips the last bit of about half the values of each product; which, follows from operator, shapes and strides."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__.removesuffix("_")
        if name not in PRODUCTS and not name.startswith(ATTENTION):
            if not is_composite(func):
                return func(*args, **kwargs)
            with self:
                return func.decompose(*args, **kwargs)

        # The generator's seed is a hash of what a kernel is chosen by.
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        layout = [(tuple(one.shape), one.stride()) for one in inputs]
        generator = torch.Generator().manual_seed(zlib.crc32(repr((str(func), layout)).encode()))
        result = func(*args, **kwargs)
        for output in tree_leaves(result):
            if type(output) is Tensor and output.is_floating_point() and output.device.type == "cpu":
                flip_some(output, generator)
        return result


@functools.cache
def is_composite(func: Any) -> bool:
    """Whether an operator, such as linear, is made of others: in inference mode it reaches the mode whole."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


def flip_some(values: Tensor, generator: torch.Generator) -> None:
    """Flip the last bit of about half the values in place; zeros and infinities, the same in any order, stay."""
    flips = torch.randint(2, values.shape, generator=generator, dtype=torch.bool)
    flips &= (values != 0) & values.isfinite()
    values.view(INTEGER_OF_SIZE[values.element_size()]).bitwise_xor_(flips)
