"""Routing for any network: its embedding, blocks and head are given as functions, and `run_blocks` runs them as a
backbone.

Shapes: B batch, S tokens of a sequence, N of them that can be routed, P that never are (P + N = S), K present of the N,
D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.selectors import TokenOrder, selectors
from tread_bench.model.backbone import Backbone, TokenState, kind
from tread_bench.model.ops.routing import gather_tokens, with_prefix


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Tokens of which only some can be routed, and the rows that accompany them.

    `embed` returns the whole sequence. In a route `call` gets what is present: the kept tokens of each sample, all
    others, and the same rows of each table. So a block is called as without a route.

    Args:
        tokens: (B, S, D), in the order in which blocks see them: text and image tokens, registers, a class token.
        routable: where the tokens stand that can be routed, the image's. All others never are.
        rows: tables (B, S, ...), or (1, S, ...) where samples share them, of whatever belongs to a token: rotary
            embeddings, padding masks, time embeddings. A row for each token, text included, in the order of the tokens.
    """

    tokens: Tensor
    routable: slice = field(default_factory=lambda: slice(None))
    rows: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def image(self) -> Tensor:
        """The tokens (B, K, D) that can be routed."""
        return self.tokens[:, self.routable]

    @property
    def text(self) -> Tensor:
        """All other tokens (B, P, D)."""
        start, stop, _ = self.routable.indices(self.tokens.shape[1])
        return _without(self.tokens, start, stop)

    def join(self, image: Tensor, text: Tensor | None = None) -> Tensor:
        """Return image (B, K, D) and text (B, P, D) tokens, by default its own text, as one sequence in its order."""
        start = self.routable.indices(self.tokens.shape[1])[0]
        text = self.text if text is None else text
        return torch.cat([text[:, :start], image, text[:, start:]], dim=1)


@dataclass(frozen=True, slots=True)
class WrappedState(TokenState):
    """A state whose prefix are the tokens of a `TokenSequence` that are never routed, wherever they stand in it."""

    is_sequence: bool = False  # embed returned a `TokenSequence`
    before: int = 0  # tokens of the prefix that stand before the image; the others stand behind it
    rows: tuple[str, ...] = ()  # names of the first tensors in `conditioning`: whole tables (B, S, ...)

    @property
    def tables(self) -> dict[str, Tensor]:
        """The whole tables (B, S, ...) by name."""
        return dict(zip(self.rows, self.conditioning, strict=False))  # type: ignore[arg-type]  # tables are no None

    @property
    def given(self) -> tuple[Tensor | None, ...]:
        """The conditioning that `embed` returned."""
        return self.conditioning[len(self.rows) :]

    def tokens(self) -> Tensor | TokenSequence:
        """Return what is present in the form in which `embed` returned it, with the rows of these tokens."""
        tokens = self.streams["tokens"]
        if not self.is_sequence:
            return tokens
        stop = self.before + tokens.shape[1] - self.num_prefix
        if self.before < self.num_prefix:
            before, behind, image = tokens.split([self.before, self.num_prefix - self.before, stop - self.before], 1)
            tokens = torch.cat([before, image, behind], dim=1)
        return TokenSequence(tokens, slice(self.before, stop), self._rows_present())

    def with_tokens(self, tokens: Tensor) -> TokenState:
        """Return this state with new values for what is present, in the order of `tokens()`."""
        if self.before < self.num_prefix:
            stop = self.before + tokens.shape[1] - self.num_prefix
            tokens = torch.cat([_without(tokens, self.before, stop), tokens[:, self.before : stop]], dim=1)
        return self.with_streams(tokens=tokens)

    def _rows_present(self) -> dict[str, Tensor]:
        """Rows of the tokens present, of each sample its own. What needs no gradient is gathered once per route."""
        if self.ids is None or not self.rows:
            return self.tables
        behind = torch.arange(self.before + self.num_tokens, self.num_prefix + self.num_tokens, device=self.device)
        places = torch.cat([with_prefix(self.ids, self.before), behind.expand(self.batch, -1)], dim=1)
        present = {}
        for name, table in self.tables.items():
            key = f"rows {name} {table.dtype}"  # in float32 for a block outside autocast
            present[name] = self.cache[key] if key in self.cache else gather_tokens(table, places)
            if not table.requires_grad:
                self.cache[key] = present[name]
        return present


class RoutedNetwork(Backbone):
    """Your own network, routed if `routes` are passed: `routed(x, t, y, routes="2:8@0.5")`; otherwise unchanged.

    The network is referenced, not copied: its parameters stay the same objects. Each function gets the network as its
    first argument and must use that one, so that a deep copy (an average of weights) computes with the copied weights.

    Args:
        network: owns the parameters; its own `forward` is not called.
        embed: (network, x, t, y) -> tokens (B, N, D), floating point, that can all be routed, or a `TokenSequence`,
            where some never are or rows accompany them; or a tuple of either and the conditioning that blocks and head
            also take: tensors (B, ...) or None.
        blocks: (network) -> its blocks, in the order in which routes number them.
        head: (network, tokens, *conditioning) -> the output; tokens as `embed` returns them.
        call: (network, block, tokens, *conditioning) -> tokens, for blocks that are not called with (tokens,
            *conditioning); tokens as `embed` returns them, those present, and back as one tensor.
        token_order: what the order of tokens means to the blocks; SET if positions are part of the tokens or rows.
        grid: rows and columns of the N tokens, for selectors that choose by position; without it only "random" works.

    What cannot be routed: blocks that need every token (convolutions on the grid, windows), blocks that change the
    number of tokens, and blocks that read what an earlier one saved (long skips: write a `Backbone` for these).
    `tread_bench.contract.check_wrapped` also finds problems that shapes do not show.

    Raises:
        ValueError: what does not fit, with the rule and the way out.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        embed: Callable[..., Any],
        blocks: Callable[[Any], Sequence[Callable[..., Any]]],
        head: Callable[..., Any],
        call: Callable[..., Tensor] | None = None,
        token_order: TokenOrder = TokenOrder.SET,
        grid: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(network, nn.Module):
            raise ValueError(f"network is {kind(network)}: it must be the torch.nn.Module that owns the parameters")
        self.network = network
        self.grid = grid
        self._functions: dict[str, Callable[..., Any]] = {
            "embed": embed,
            "blocks": blocks,
            "head": head,
            "call": call or (lambda net, block, tokens, *given: block(getattr(tokens, "tokens", tokens), *given)),
        }

        found = blocks(network)
        if not isinstance(found, Sequence | nn.ModuleList | nn.Sequential) or not len(found):
            raise ValueError(f"blocks returned {kind(found)}: it must return a list of one block or more")
        owned = set(network.parameters())
        for number, block in enumerate(found):
            if isinstance(block, nn.Module) and not owned.issuperset(block.parameters()):
                rule = "has parameters that the network does not own: register it in the network"
                raise ValueError(f"block {number} {rule}")

        # Defaults without a `Family`; a family that builds this network sets itself and its spec.
        self.spec = None  # type: ignore[assignment]  # x, t and y are whatever `embed` takes
        self.family = Family(
            name=type(network).__name__,
            spec=BackboneSpec,
            published={},
            token_order=token_order,
            num_blocks=lambda spec: len(blocks(network)),
            builder="",
            selectors=None if grid else tuple(one.name for one in selectors().values() if not one.needs_grid),
        )

    def start(self, x: Tensor, t: Tensor, y: Any) -> WrappedState:
        """Return the state before the first block; inputs are checked if a `Family` built this network."""
        return self.embed(x, t, y) if self.spec is None else super().start(x, t, y)  # type: ignore[return-value]

    def finish(self, state: TokenState) -> Any:
        """Return the output of `head`, or only its first channels if a `Family` built this network."""
        return self.head(state) if self.spec is None else super().finish(state)

    def embed(self, x: Tensor, t: Tensor, y: Any) -> WrappedState:
        """Return the state before the first block. Raises ValueError if tokens or conditioning break these rules."""
        # Get tokens and conditioning, with a row per sample, and rows with one per token.
        given = self._functions["embed"](self.network, x, t, y)
        first, *conditioning = given if isinstance(given, tuple) else (given,)
        sequence = first if isinstance(first, TokenSequence) else TokenSequence(first)
        _check_rows(sequence, conditioning, len(x))
        tables = [table.expand(len(x), *table.shape[1:]) for table in sequence.rows.values()]

        # Find the tokens that can be routed, and put all others before them.
        tokens = sequence.tokens
        start, stop, _ = sequence.routable.indices(tokens.shape[1])
        grid = self.grid or (None if self.spec is None else self.spec.grid)
        if stop <= start or (grid and stop - start != grid[0] * grid[1]):
            expected = f"for a grid {grid}" if grid else "and one or more must be"
            raise ValueError(
                f"embed returned {tokens.shape[1]} tokens, of which {max(stop - start, 0)} can be routed, {expected}: "
                "state routable and grid as embed returns them"
            )
        if stop < tokens.shape[1]:
            tokens = torch.cat([_without(tokens, start, stop), sequence.image], dim=1)
        return WrappedState(
            {"tokens": tokens},
            grid or (1, stop - start),
            num_prefix=tokens.shape[1] - (stop - start),
            conditioning=(*tables, *conditioning),
            is_sequence=sequence is first,
            before=start,
            rows=tuple(sequence.rows),
        )

    def run_block(self, block: int, state: TokenState) -> TokenState:
        """Run one block on the tokens present.

        Raises:
            ValueError: it returns other tokens.
            Exception: its own, with a note if it was in a route and needs the others.
        """
        assert isinstance(state, WrappedState)
        shape = state.streams["tokens"].shape
        try:
            after = self._functions["call"](self.network, self._blocks()[block], state.tokens(), *state.given)
        except Exception as error:
            if state.ids is not None:
                error.add_note(
                    f"block {block} failed on {state.ids.shape[1]} of {state.num_tokens} tokens: in a route it must "
                    "take any of them; give what belongs to a token as rows of a TokenSequence, or route around it"
                )
            raise
        if not isinstance(after, Tensor) or after.shape != shape:
            raise ValueError(
                f"block {block} returned {kind(after)} for tokens {tuple(shape)}: it must return these tokens; "
                "with call= pick them out of a tuple, or join them (TokenSequence.join), and leave blocks that merge "
                "or add tokens to embed or head"
            )
        return state.with_tokens(after)

    def head(self, state: TokenState) -> Any:
        """Return the output of the network's head."""
        assert isinstance(state, WrappedState)
        return self._functions["head"](self.network, state.tokens(), *state.given)

    def _blocks(self) -> Sequence[Callable[..., Any]]:
        return self._functions["blocks"](self.network)


def _without(tokens: Tensor, start: int, stop: int) -> Tensor:
    """Return all tokens but those from `start` to `stop`."""
    if start == 0 or stop == tokens.shape[1]:  # they stand together
        return tokens[:, stop:] if start == 0 else tokens[:, :start]
    return torch.cat([tokens[:, :start], tokens[:, stop:]], dim=1)


def _check_rows(sequence: TokenSequence, conditioning: Sequence[object], batch: int) -> None:
    """Raise ValueError if tokens or conditioning do not have a row per sample, or tables not one per token."""
    tokens = sequence.tokens
    if not _has_rows(tokens, batch) or tokens.ndim != 3 or not tokens.is_floating_point():
        raise ValueError(
            f"embed returned {kind(tokens)}: tokens are (B, S, D) of floating point, here with B = {batch}; "
            "flatten a grid with .flatten(2).transpose(1, 2), and turn (S, B, D) with .transpose(0, 1)"
        )
    for name, table in sequence.rows.items():
        shapes = [(1, tokens.shape[1]), (batch, tokens.shape[1])]
        if not isinstance(table, Tensor) or table.shape[:2] not in shapes:
            raise ValueError(
                f"embed returned rows {name!r} as {kind(table)} for {tokens.shape[1]} tokens: rows are (B, S, ...), or "
                f"(1, S, ...) for all samples, here with B = {batch} and S = {tokens.shape[1]}: one for each token of "
                "the sequence, text included"
            )
    if sequence.routable.step not in (None, 1):
        raise ValueError(f"embed returned routable = {sequence.routable}: routable tokens stand together, in step 1")
    for one in conditioning:
        if one is not None and not _has_rows(one, batch):
            raise ValueError(
                f"embed returned {kind(one)} beside the tokens: conditioning is tensors (B, ...), here with "
                f"B = {batch}, or None; return them one by one, and take what samples share from the network"
            )


def _has_rows(value: object, batch: int) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.ndim > 0 and len(value) == batch
