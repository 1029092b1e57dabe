"""Lookup of methods and of auxiliary losses by name, through entry points of `tread_bench.methods` and `.losses`.

A method decides how a training step walks the blocks of a backbone; an auxiliary loss is added to the training loss of
any method. A `MethodFamily` and a `LossFamily` state what the rest of the package needs to know about one; nobody
compares its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import Field

from tread_bench.core.config.base import Float, Options
from tread_bench.core.describe.plugins import Description, Kind
from tread_bench.core.describe.routes import Route
from tread_bench.core.problems import Problem


class Tokens(StrEnum):
    """What a method does with the tokens that do not pass the blocks of a route."""

    ALL_PASS = "all pass"  # the method takes no routes
    BYPASS = "bypass"  # they are absent inside the route and return after it with the value they had
    DROP = "drop"  # they are absent inside the route and are replaced after it
    LEAVE_OUT = "leave out"  # they are absent to the end of the network, and nothing is predicted of them
    LATENTS = "latents"  # fewer latents take their places, how many differs between steps; after it all are changed
    SKIP = "skip"  # some skip each block but stay in the sequence
    SKIP_AS_A_WHOLE = "skip as a whole"  # either all tokens of a sample pass the route or none


class Evaluated(StrEnum):
    """How a method's network computes the samples and validation losses of an evaluation."""

    DENSE = "dense"  # all tokens pass all blocks
    ROUTED = "routed"  # as in a training step at full rates


class MethodOptions(Options):
    """A method's settings in a suite. A subclass states its method's name: `name: Literal["mine"] = "mine"`."""

    @property
    def family(self) -> MethodFamily:
        return methods.find(self.name)

    @property
    def has_float32_block(self) -> bool:
        """Whether a block is computed outside autocast."""
        return False

    def alternatives(self, routes: tuple[Route, ...], num_tokens: int) -> tuple[tuple[Route, ...], ...]:
        """Return the routes between which samples or steps differ, all equally probable; here the cell's alone."""
        return (routes,)


@dataclass(frozen=True, kw_only=True)
class MethodFamily(Description):
    """Torch-free description of a method.

    Args:
        name: its name in a suite.
        options: its typed settings; the docstring's first line is what `tread-bench list methods` shows.
        builder: "module:attribute" of a callable (cell, backbone) -> `Method`.
        tokens: what happens to the tokens that do not pass the blocks of a route.
        evaluated: how its network is evaluated; dense, if not stated.
        has_modules: it has parameters of its own: they are counted, and the trained network is not the plain backbone.
        chooses_tokens: it chooses itself which tokens pass a block, so a cell has no selector.
        has_shallow_path: it can predict without its deep path (`Method.shallow_forward`), for path-drop guidance.
        check: finds further problems of a `Setting` with this method; their keys are those of the cell.
        own_losses: auxiliary losses that the method includes -> the option with their weight.
        evaluation_options: options that change the evaluation alone, and nothing of what is trained -> a value other
            than the default, which the contract tries. A row with `evaluate` may set them.
    """

    options: type[MethodOptions]
    builder: str
    tokens: Tokens
    evaluated: Evaluated = Evaluated.DENSE
    has_modules: bool = False
    chooses_tokens: bool = False
    has_shallow_path: bool = False
    check: Callable[[Any], Iterable[Problem]] = lambda setting: ()
    own_losses: Mapping[str, str] = field(default_factory=dict)
    evaluation_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def takes_routes(self) -> bool:
        return self.tokens is not Tokens.ALL_PASS

    @property
    def varies(self) -> bool:
        """Whether samples or steps differ in which blocks their tokens pass, so that costs are means over them."""
        return self.tokens in (Tokens.LATENTS, Tokens.SKIP_AS_A_WHOLE)

    @property
    def predicts_absent_tokens(self) -> bool:
        """Whether tokens that do not pass a route's blocks are still predicted."""
        return self.tokens in (Tokens.BYPASS, Tokens.DROP)

    @property
    def is_plain_backbone(self) -> bool:
        """Whether the trained network is the backbone alone, which can be run routed or without some blocks."""
        return not self.has_modules and self.evaluated is Evaluated.DENSE

    @property
    def is_plain_routing(self) -> bool:
        """Whether the method is nothing but routes, so that a row is identified by where tokens leave and return."""
        return self.tokens is Tokens.BYPASS and not self.has_modules


methods = Kind("method", "tread_bench.methods", MethodFamily, MethodOptions)


class LossOptions(Options):
    """A loss's settings in a suite. A subclass states its loss's name: `name: Literal["mine"] = "mine"`."""

    weight: Float = Field(gt=0)

    @property
    def family(self) -> LossFamily:
        return losses.find(self.name)


@dataclass(frozen=True, kw_only=True)
class LossFamily(Description):
    """Torch-free description of an auxiliary loss.

    Args:
        name: its name in a suite.
        options: its typed settings; the docstring's first line is what `tread-bench list losses` shows.
        builder: "module:attribute" of a callable (options, cell, backbone) -> `Auxiliary`.
        needs_absent_tokens: it is computed over tokens that were absent inside a route but are still predicted.
        reads_tokens: it reads every sample's tokens after a block (`Auxiliary.block`).
        sees_images: it reads `Images.seen`, images in [-1, 1]; of latents, those beside them.
        check: finds further problems of a cell with this loss; their keys are those of the loss's options.
        files: key of the options -> file that the loss reads.
    """

    options: type[LossOptions]
    builder: str
    needs_absent_tokens: bool = False
    reads_tokens: bool = False
    sees_images: bool = False
    check: Callable[[Any, Any], Iterable[Problem]] = lambda setting, options: ()
    files: Callable[[Any], Iterable[tuple[str, str]]] = lambda options: ()


losses = Kind("auxiliary loss", "tread_bench.losses", LossFamily, LossOptions, key="auxiliary")
