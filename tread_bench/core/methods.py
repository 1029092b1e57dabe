"""Names to methods, found through entry points of the group `tread_bench.methods`.

A method walks the blocks of a backbone in a training step. What the rest of the package needs to know of it, its
`MethodFamily` says; nobody compares its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from tread_bench.core.config.base import Model
from tread_bench.core.plugins import Kind, announced, find, wrong_builder, wrong_options, wrong_traits

if TYPE_CHECKING:
    from tread_bench.core.problems import Problem
    from tread_bench.core.routed import Setting


class Tokens(StrEnum):
    """What a method does with the tokens that do not pass the blocks of a route."""

    ALL_PASS = "all pass"  # the method takes no routes
    BYPASS = "bypass"  # they are absent inside the route, and come back behind it with the value that they had
    DROP = "drop"  # they are absent inside the route, and something else takes their place behind it
    SKIP = "skip"  # at each block some do not pass, and stay among the others
    SKIP_AS_A_WHOLE = "skip as a whole"  # all tokens of a sample pass the route, or none


class Evaluated(StrEnum):
    """How a method's network makes the samples and the validation losses that it is evaluated with."""

    DENSE = "dense"  # all tokens pass all blocks
    ROUTED = "routed"  # as in a training step at full rates


class MethodOptions(Model):
    """A method's settings in a suite. Each subclass has its method's name: `name: Literal["mine"] = "mine"`."""

    name: str = ""

    @property
    def family(self) -> MethodFamily:
        return find_method(self.name)


def no_further_rule(setting: Setting) -> Iterable[Problem]:
    """What all methods keep to is enough."""
    return ()


@dataclass(frozen=True, kw_only=True)
class MethodFamily:
    """A method: what is known of it without torch.

    Args:
        name: as a suite writes it.
        options: its typed settings; the docstring's first line is what `tread-bench list methods` shows.
        builder: "module:attribute" of a callable (cell, backbone) -> `Method`.
        tokens: what happens to the tokens that do not pass the blocks of a route.
        evaluated: how its network is evaluated.
        has_modules: it has parameters of its own: they are counted, and the trained network is not the plain backbone.
        chooses_tokens: it chooses itself what passes a block, so that a cell has no selector.
        has_shallow_path: it can predict without its deep path (`Method.shallow_forward`), for path-drop guidance.
        check: what else is wrong with a cell, as problems with their keys in the cell.
        own_losses: auxiliary losses that it has itself -> the option with their weight.
    """

    name: str
    options: type[MethodOptions]
    builder: str
    tokens: Tokens
    evaluated: Evaluated
    has_modules: bool
    chooses_tokens: bool
    has_shallow_path: bool
    check: Callable[[Setting], Iterable[Problem]] = no_further_rule
    own_losses: Mapping[str, str] = field(default_factory=dict)
    source: str = field(default="", compare=False)  # the distribution that announces it

    @property
    def takes_routes(self) -> bool:
        return self.tokens is not Tokens.ALL_PASS

    @property
    def predicts_absent_tokens(self) -> bool:
        """Whether tokens that do not see a route's blocks are predicted all the same."""
        return self.tokens in (Tokens.BYPASS, Tokens.DROP)

    @property
    def is_plain_backbone(self) -> bool:
        """Whether the trained network is the backbone alone, which can be run routed or without some blocks."""
        return not self.has_modules and self.evaluated is Evaluated.DENSE

    @property
    def is_plain_routing(self) -> bool:
        """Whether it is nothing but routes: a row is told by where its tokens leave and come back."""
        return self.tokens is Tokens.BYPASS and not self.has_modules


def _wrong_with(method: MethodFamily) -> str:
    """By which rule a method cannot be used; empty: it can."""
    return (
        wrong_options(method, MethodOptions)
        or wrong_builder(method.builder)
        or wrong_traits(
            method,
            tokens=Tokens,
            evaluated=Evaluated,
            has_modules=bool,
            chooses_tokens=bool,
            has_shallow_path=bool,
            check=Callable,
            own_losses=Mapping,
        )
    )


METHODS = Kind(word="method", group="tread_bench.methods", of=MethodFamily, wrong_with=_wrong_with)


@cache
def methods() -> dict[str, MethodFamily]:
    """Every method that is announced and can be used, by name."""
    return announced(METHODS)


def find_method(name: str) -> MethodFamily:
    """The method of that name. Raises ValueError."""
    return find(name, methods(), "method")
