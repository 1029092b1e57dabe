"""torch.compile for the blocks of a network, in training steps only.

Blocks are the members of the `nn.ModuleList`s of backbone and method, and every other module of their classes. Their
classes' forward passes are compiled, so that blocks share code, and at a second number of tokens the number becomes
variable: neither depth nor another route compiles anything again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType

import torch
from torch import nn

from tread_bench.core.errors import UserError
from tread_bench.model.backbone import Backbone

BACKEND = "inductor"
RECOMPILE_LIMIT = 64  # kinds of blocks x numbers of tokens known or variable; beyond it torch raises


class CompiledBlocks:
    """Runs the blocks of a backbone and its method compiled while `active`; otherwise they are unchanged.

    Raises:
        UserError: the backbone has no `nn.ModuleList`.
    """

    def __init__(self, backbone: Backbone, method: nn.Module) -> None:
        if not _blocks(backbone):
            raise UserError(
                f"compute.compile: {type(backbone).__name__} has no nn.ModuleList of blocks that could be compiled: "
                "set compute.compile to false"
            )
        classes = {type(block) for block in _blocks(backbone) + _blocks(method)}
        compiled = {cls: torch.compile(cls.forward, backend=BACKEND, fullgraph=True) for cls in classes}
        modules = [*backbone.modules(), *method.modules()]
        self._forwards = [(m, MethodType(compiled[type(m)], m)) for m in modules if type(m) in compiled]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Forward and backward passes in this context are compiled; what a plug-in draws is the same as without."""
        import torch._dynamo.config as dynamo
        import torch._inductor.config as inductor

        with dynamo.patch(recompile_limit=RECOMPILE_LIMIT), inductor.patch(fallback_random=True):
            for module, forward in self._forwards:
                module.forward = forward
            try:
                yield
            finally:
                for module, _ in self._forwards:
                    del module.forward


def _blocks(module: nn.Module) -> list[nn.Module]:
    lists = [child for child in module.children() if isinstance(child, nn.ModuleList)]
    return [block for members in lists for block in members]
