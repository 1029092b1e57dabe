"""torch.compile for training steps alone: of the network's forward pass as a whole, or of its blocks one by one.

As a whole, forward and backward passes are a graph each, for every number of tokens; captured, each of these is also
recorded as a CUDA graph, which costs the host one call. What cannot be captured is compiled as a whole, and what cannot
be compiled as a whole, by blocks.

Blocks are the members of the `nn.ModuleList`s of backbone and method, and every other module of their classes. Their
classes' forward passes are compiled, so that blocks share code, and at a second number of tokens the number becomes
variable: neither depth nor another route compiles anything again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import nn

from tread_bench.core.config.compute import StepOptions
from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.model.network import Network

BACKEND = "inductor"
RECOMPILE_LIMIT = 64  # kinds of blocks x numbers of tokens known or variable; beyond it torch raises
SIMPLER = {"captured": "network", "network": "blocks"}


class Compilation:
    """How training steps of a network are compiled while `active`: "captured", "network", "blocks", or "none".

    `instead` says what is done in place of what was requested, and why; "" where nothing is.

    Raises:
        UserError: blocks are compiled, and the backbone has no `nn.ModuleList`.
    """

    def __init__(self, network: Network, cell: Cell, options: StepOptions, device: torch.device, ranks: int) -> None:
        self.way: str = "blocks" if options.compile is True else options.compile or "none"
        self.instead = ""
        if self.way != "none":
            _configure()
        self._network = network
        if self.way == "captured" and (reason := _not_captured(cell, options, device)):
            self.fall_back(reason)
        if self.way in SIMPLER and (reason := _not_whole(cell, options, ranks)):
            self.way = "network"
            self.fall_back(reason)
        self._functions = self._compiled()

    def fall_back(self, reason: str) -> None:
        """Compile in the next simpler way from here on."""
        self.way = SIMPLER[self.way]
        self.instead = f"{self.way}: {reason}"
        self._functions = self._compiled()

    def _compiled(self) -> list[tuple[nn.Module, str, Callable[..., Any]]]:
        """The compiled functions, each with the module and the attribute that it replaces."""
        network = self._network
        if self.way == "none":
            return []
        if self.way in SIMPLER:
            mode = "reduce-overhead" if self.way == "captured" else None
            return [(network, "computed", torch.compile(network.computed, backend=BACKEND, fullgraph=True, mode=mode))]
        members = _blocks(network.backbone)
        if not members:
            raise UserError(
                f"compute.compile: {type(network.backbone).__name__} has no nn.ModuleList of blocks that could be "
                "compiled: set compute.compile to false"
            )
        classes = {type(block) for block in members + _blocks(network.method)}
        compiled = {cls: torch.compile(cls.forward, backend=BACKEND, fullgraph=True) for cls in classes}
        modules = [*network.backbone.modules(), *network.method.modules()]
        return [(m, "forward", MethodType(compiled[type(m)], m)) for m in modules if type(m) in compiled]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Forward and backward passes in this context are compiled."""
        if self.way == "captured":
            torch.compiler.cudagraph_mark_step_begin()
        for module, name, function in self._functions:
            setattr(module, name, function)
        try:
            yield
        finally:
            for module, name, _ in self._functions:
                delattr(module, name)


def _configure() -> None:
    """Set torch.compile up for this process: once, since a context of its own would cost every step."""
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    dynamo.recompile_limit = RECOMPILE_LIMIT
    inductor.fallback_random = True  # what a plug-in draws is the same as without compilation


def _not_captured(cell: Cell, options: StepOptions, device: torch.device) -> str:
    """Why a step cannot be recorded once and repeated; "" where it can."""
    if device.type != "cuda":
        return "a CPU has no CUDA graphs"
    if options.autocast == "float16":
        return "the scale of the loss changes with float16"
    if options.micro_batch is not None and options.micro_batch < cell.training.batch:
        return "gradients of micro batches are summed"
    if cell.method.family.varies:
        return f"the shapes of {cell.method.name} change from step to step"
    return ""


def _not_whole(cell: Cell, options: StepOptions, ranks: int) -> str:
    """Why the network is not compiled as a whole; "" where it can be tried."""
    if ranks > 1:
        return "several processes sum the gradients of blocks while others are computed"
    if cell.schedule.warmup:
        return "the number of tokens changes from step to step while the route's rate rises"
    if options.autocast != "none" and cell.method.has_float32_block:
        return "a float32 block in the middle of a network in reduced precision has gradients of NaN (torch 2.15, CPU)"
    return ""


def _blocks(module: nn.Module) -> list[nn.Module]:
    lists = [child for child in module.children() if isinstance(child, nn.ModuleList)]
    return [block for members in lists for block in members]
