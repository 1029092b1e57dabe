"""Names to auxiliary losses, found through entry points of the group `tread_bench.losses`.

An auxiliary loss is added to the training loss of any method. What the rest of the package needs to know of it, its
`LossFamily` says; nobody compares its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import Field

from tread_bench.core.config.base import Float, Model
from tread_bench.core.plugins import Kind, announced, find, wrong_builder, wrong_options, wrong_traits

if TYPE_CHECKING:
    from tread_bench.core.problems import Problem
    from tread_bench.core.routed import Setting


class LossOptions(Model):
    """A loss's settings in a suite. Each subclass has its loss's name: `name: Literal["mine"] = "mine"`."""

    name: str = ""
    weight: Float = Field(gt=0)

    @property
    def family(self) -> LossFamily:
        return find_loss(self.name)


def no_further_rule(setting: Setting, options: Any) -> Iterable[Problem]:
    """What all losses keep to is enough."""
    return ()


def no_files(options: Any) -> Iterable[tuple[str, str]]:
    """The loss reads no files."""
    return ()


@dataclass(frozen=True, kw_only=True)
class LossFamily:
    """An auxiliary loss: what is known of it without torch.

    Args:
        name: as a suite writes it.
        options: its typed settings; the docstring's first line is what `tread-bench list losses` shows.
        builder: "module:attribute" of a callable (options, cell, backbone) -> `Auxiliary`.
        needs_absent_tokens: it is computed over tokens that were absent inside a route, and predicted all the same.
        reads_tokens: it reads the tokens behind a block (`Auxiliary.block`), of every sample.
        extra_cost: "module:attribute" of a callable (options, family, spec, image tokens behind each block) -> `Extra`;
            None: it has neither parameters nor matrix products.
        check: what else is wrong with a cell that has it, as problems with their keys in the loss's options.
        files: key of the options -> file that it reads.
    """

    name: str
    options: type[LossOptions]
    builder: str
    needs_absent_tokens: bool
    reads_tokens: bool
    extra_cost: str | None
    check: Callable[[Setting, Any], Iterable[Problem]] = no_further_rule
    files: Callable[[Any], Iterable[tuple[str, str]]] = no_files
    source: str = field(default="", compare=False)  # the distribution that announces it


def _wrong_with(loss: LossFamily) -> str:
    """By which rule a loss cannot be used; empty: it can."""
    return (
        wrong_options(loss, LossOptions)
        or wrong_builder(loss.builder)
        or ("" if loss.extra_cost is None else wrong_builder(loss.extra_cost, "extra_cost"))
        or wrong_traits(loss, needs_absent_tokens=bool, reads_tokens=bool, check=Callable, files=Callable)
    )


LOSSES = Kind(word="auxiliary loss", group="tread_bench.losses", of=LossFamily, wrong_with=_wrong_with)


@cache
def losses() -> dict[str, LossFamily]:
    """Every auxiliary loss that is announced and can be used, by name."""
    return announced(LOSSES)


def find_loss(name: str) -> LossFamily:
    """The loss of that name. Raises ValueError."""
    return find(name, losses(), "auxiliary")
