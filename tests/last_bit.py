"""A mode in which two different products of matrices never agree to the last bit, as on some processors they do not.

BLAS chooses a kernel by operator, shapes and strides, and kernels sum in different orders. Whether two of them happen
to agree depends on the processor. Under this mode they differ on every processor; the same call made twice stays equal.
`TREAD_BENCH_LAST_BIT=1 pytest` runs tests under it. It does not reach other threads and processes.
"""

from __future__ import annotations

import functools
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "_addmm_activation"}
PRODUCTS |= {"convolution", "convolution_backward", "mkldnn_convolution", "mkldnn_linear", "_cdist_forward"}
ATTENTION = "_scaled_dot_product_"
ANOTHER_THREAD = ThreadPoolExecutor(1)
INTEGER_OF_SIZE = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class LastBit(TorchDispatchMode):
    """Sets the last bit of all values of a product by operator, shapes and strides: about half of them change."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "tread_bench":  # some of ours differentiate inside, which torch forbids below a mode
            return ANOTHER_THREAD.submit(torch.no_grad()(func), *args, **kwargs).result()
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
                set_last_bits(output, generator)
        return result


@functools.cache
def is_composite(func: Any) -> bool:
    """Whether an operator, such as linear, is made of others: in inference mode it reaches the mode whole."""
    registered = torch._C._dispatch_has_kernel_for_dispatch_key
    return func.namespace == "aten" and registered(func.name(), "CompositeImplicitAutograd")


def set_last_bits(values: Tensor, generator: torch.Generator) -> None:
    """Set every value's last bit at random, in place; zeros and infinities, the same in any order of a sum, stay."""
    bits = values.view(INTEGER_OF_SIZE[values.element_size()])
    drawn = torch.randint(2, values.shape, generator=generator, dtype=bits.dtype)
    changes = (bits ^ drawn) & 1
    bits.bitwise_xor_(changes.masked_fill_((values == 0) | ~values.isfinite(), 0))
