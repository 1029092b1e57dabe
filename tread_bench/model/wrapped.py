"""Routing for any network: its embedding, blocks and head are given as functions, and `run_blocks` runs them as a
backbone.

Shapes: B batch, P prefix tokens, N tokens that can be routed, K of them present, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.selectors import TokenOrder, selectors
from tread_bench.model.backbone import Backbone, TokenState, kind

Functions = dict[str, Callable[..., Any]]
_ARGUMENTS = {  # arguments of each function, without conditioning
    "embed": "network, x, t, y",
    "blocks": "network",
    "head": "network, tokens",
    "call": "network, block, tokens, positions",
}
_FAILURES = (RuntimeError, ValueError, IndexError, AssertionError)  # for blocks that need every token


class RoutedNetwork(Backbone):
    """Your own network, routed if `routes` are passed: `routed(x, t, y, routes="2:8@0.5")`; otherwise unchanged.

    The network is referenced, not copied: its parameters stay the same objects. Each function gets the network as its
    first argument and must use that one, so that a deep copy (an average of weights) computes with the copied weights.

    Args:
        network: owns the parameters; its own `forward` is not called.
        embed: (network, x, t, y) -> tokens (B, P + N, D), floating point; or a tuple of them and the conditioning that
            blocks and head also take: tensors (B, ...) or None.
        blocks: (network) -> its blocks, in the order in which routes number them.
        head: (network, tokens, *conditioning) -> the output.
        call: (network, block, tokens, positions, *conditioning) -> tokens, for blocks that are not called with
            (tokens, *conditioning). positions (B, P + K), long, are the positions of these tokens in the whole
            sequence,
            prefix included; use them to look up what belongs to each token, such as its row of a rotary table.
        num_prefix: P, the number of leading tokens that are never routed: registers, a class token, text.
        token_order: what the order of tokens means to the blocks; SET if positions are part of the tokens.
        grid: rows and columns of the N tokens, for selectors that choose by position; without it only "random" works.

    What cannot be routed: blocks that need every token (convolutions on the grid, windows), blocks that change the
    number of tokens, and blocks that read what an earlier one saved, or change a text beside the tokens (long skips,
    two streams: write a `Backbone` for these).
    `tread_bench.contract.check_wrapped` also finds problems that shapes do not show.

    Raises:
        ValueError: what does not fit, with the rule and the way out; all mistakes in the arguments together.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        embed: Callable[..., Tensor | tuple[Tensor | None, ...]],
        blocks: Callable[[Any], Sequence[Callable[..., Tensor]]],
        head: Callable[..., Any],
        call: Callable[..., Tensor] | None = None,
        num_prefix: int = 0,
        token_order: TokenOrder = TokenOrder.SET,
        grid: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        functions: Functions = {"embed": embed, "blocks": blocks, "head": head, "call": call or _call_plainly}
        mistakes = list(_mistakes(network, functions, num_prefix))
        if mistakes:
            raise ValueError("; ".join(mistakes))
        self.network = network
        self.num_prefix = num_prefix
        self.grid = grid
        self._functions = functions

        # Defaults without a `Family`; a family that builds this network sets itself and its spec.
        count = len(blocks(network))
        self.spec = None  # type: ignore[assignment]  # x, t and y are whatever `embed` takes
        self.family = Family(
            name=type(network).__name__,
            spec=BackboneSpec,
            published={},
            token_order=token_order,
            num_blocks=lambda spec: count,
            builder="",
            selectors=None if grid else tuple(one.name for one in selectors().values() if not one.needs_grid),
        )

    def start(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        """Return the state before the first block; inputs are checked if a `Family` built this network."""
        return self.embed(x, t, y) if self.spec is None else super().start(x, t, y)

    def finish(self, state: TokenState) -> Any:
        """Return the output of `head`, or only its first channels if a `Family` built this network."""
        return self.head(state) if self.spec is None else super().finish(state)

    def embed(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        """Return the state before the first block. Raises ValueError if tokens or conditioning break these rules."""
        if len(self._blocks()) != self.num_blocks:
            raise ValueError(
                f"{len(self._blocks())} blocks, but routes count {self.num_blocks}: wrap the network again"
            )

        # Get tokens and conditioning, with a row per sample.
        given = self._functions["embed"](self.network, x, t, y)
        tokens, *conditioning = given if isinstance(given, tuple) else (given,)
        _check_rows(tokens, conditioning, len(x))

        # Add their positions.
        grid = self.grid or (None if self.spec is None else self.spec.grid)
        routable = tokens.shape[1] - self.num_prefix
        if routable < 1 or (grid and routable != grid[0] * grid[1]):
            stated = f"a grid {grid}" if grid else "one or more"
            raise ValueError(
                f"embed returned {tokens.shape[1]} tokens for num_prefix={self.num_prefix} and {stated} to route: "
                "state num_prefix and grid as embed returns them"
            )
        return TokenState(
            {"tokens": tokens}, grid or (1, routable), num_prefix=self.num_prefix, conditioning=tuple(conditioning)
        )

    def run_block(self, block: int, state: TokenState) -> TokenState:
        """Run one block on the tokens present. Raises ValueError if it needs the others or returns different ones."""
        tokens = state.streams["tokens"]
        positions = state.positions
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device).expand(len(tokens), -1)
        try:
            after = self._functions["call"](self.network, self._blocks()[block], tokens, positions, *state.conditioning)
        except _FAILURES as error:
            if state.ids is None or isinstance(error, torch.OutOfMemoryError):
                raise
            raise ValueError(
                f"block {block} failed on {state.ids.shape[1]} of {state.num_tokens} tokens ({type(error).__name__}: "
                f"{error}): inside a route it must take any of them; with call= look up what belongs to a token by its "
                "position, or route around a block that needs all tokens"
            ) from error
        if not isinstance(after, Tensor) or after.shape != tokens.shape:
            raise ValueError(
                f"block {block} returned {kind(after)} for tokens {tuple(tokens.shape)}: it must return these tokens; "
                "with call= pick them out of a tuple, and leave blocks that merge or add tokens to embed or head"
            )
        return state.with_streams(tokens=after)

    def head(self, state: TokenState) -> Any:
        """Return the output of the network's head."""
        return self._functions["head"](self.network, state.streams["tokens"], *state.conditioning)

    def _blocks(self) -> Sequence[Callable[..., Tensor]]:
        return self._functions["blocks"](self.network)


def _call_plainly(
    network: nn.Module, block: Callable[..., Tensor], tokens: Tensor, _: Tensor, *given: Tensor
) -> Tensor:
    return block(tokens, *given)


def _mistakes(network: nn.Module, functions: Functions, num_prefix: int) -> Iterator[str]:
    """The rules by which a network cannot be wrapped like this."""
    for name, function in functions.items():
        if not _takes(function, _ARGUMENTS[name].count(",") + 1):
            yield f"{name} is called with ({_ARGUMENTS[name]}): pass a function, such as lambda {_ARGUMENTS[name]}: ..."
    if num_prefix < 0:
        yield f"num_prefix {num_prefix}: the number of first tokens that are never routed is 0 or more"
    if not isinstance(network, nn.Module):
        yield f"network is {kind(network)}: it must be the torch.nn.Module that owns the parameters"
    elif _takes(functions["blocks"], 1):
        blocks = functions["blocks"](network)
        if not isinstance(blocks, Sequence | nn.ModuleList | nn.Sequential) or not len(blocks):
            yield f"blocks returned {kind(blocks)}: it must return a list of one block or more"
            return
        owned = {id(parameter) for parameter in network.parameters()}
        for number, block in enumerate(blocks):
            if isinstance(block, nn.Module) and any(id(p) not in owned for p in block.parameters()):
                yield f"block {number} has parameters that the network does not own: register it in the network"


def _takes(function: object, count: int) -> bool:
    if isinstance(function, nn.Module) or not callable(function):
        return False
    try:
        signature(function).bind_partial(*range(count))
    except TypeError:
        return False
    except ValueError:  # written in C, without a signature
        return True
    return True


def _check_rows(tokens: object, conditioning: Sequence[object], batch: int) -> None:
    """Raise ValueError if tokens or conditioning do not have a row per sample."""
    if not _has_rows(tokens, batch) or tokens.ndim != 3 or not tokens.is_floating_point():
        raise ValueError(
            f"embed returned {kind(tokens)}: tokens are (B, P + N, D) of floating point, here with B = {batch}; "
            "flatten a grid with .flatten(2).transpose(1, 2), and turn (N, B, D) with .transpose(0, 1)"
        )
    for one in conditioning:
        if one is not None and not _has_rows(one, batch):
            raise ValueError(
                f"embed returned {kind(one)} beside the tokens: conditioning is tensors (B, ...), here with "
                f"B = {batch}, or None; return them one by one, and take what samples share from the network"
            )


def _has_rows(value: object, batch: int) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.ndim > 0 and len(value) == batch
