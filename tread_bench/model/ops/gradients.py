"""Operators of this package: their precision, and backward passes that are operators too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast on the device of x."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def join_backward(
    name: str, flops: Callable[..., int], outputs: Callable[..., Any], needs_result: bool = False
) -> None:
    """Let the operator `<name>_backward` compute the gradients of `name`'s result, its first output.

    It takes the result's gradient, the tensors that `name` takes, the outputs of `name` and its other arguments, in
    this order, and returns a gradient for each of these tensors.

    Args:
        flops: (shapes of the inputs) -> flops of the forward pass. The backward pass has two gradients for each
            product; what it computes again does not count.
        outputs: (inputs) -> empty outputs of the forward pass, on any device.
        needs_result: the backward operator takes the result too; otherwise only the outputs behind it.
    """
    backward = getattr(torch.ops.tread_bench, f"{name}_backward")
    count = len(backward.default._schema.returns)

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.save_for_backward(*inputs[:count], *outputs[0 if needs_result else 1 :])
        ctx.others = inputs[count:]
        ctx.set_materialize_grads(False)  # only the result has a gradient

    def differentiate(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        unchanged = [None] * len(ctx.others)
        if grad is None:
            return *[None] * count, *unchanged
        return *backward(grad.contiguous(), *ctx.saved_tensors, *ctx.others), *unchanged

    def shapes_of(grad: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
        return tuple(torch.empty_like(x) for x in inputs[:count])

    torch.library.register_autograd(f"tread_bench::{name}", differentiate, setup_context=save)
    torch.library.register_fake(f"tread_bench::{name}", outputs)
    torch.library.register_fake(f"tread_bench::{name}_backward", shapes_of)
    register_flop_formula(getattr(torch.ops.tread_bench, name))(flops)
    register_flop_formula(backward)(lambda grad_shape, *shapes, **options: 2 * flops(*shapes, **options))
