"""Names to rules of guidance, found through entry points of the group `tread_bench.guidance`.

A rule says which two branches are combined, and at which times; `config/branches.py` has the formula. It needs no
torch: what the rest of the package needs to know of a rule, its options say; nobody compares its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from tread_bench.core.config.base import Float, Int, Model, no_boolean
from tread_bench.core.config.branches import Branch
from tread_bench.core.plugins import Kind, announced, find, wrong_options
from tread_bench.core.routes import Route


def _read_blocks(value: object) -> object:
    if isinstance(value, list | tuple) and all(isinstance(route, Route) for route in value):
        return tuple(value)
    if not isinstance(value, str):
        raise ValueError("must be START:END, such as 2:8; several are separated by commas")
    try:
        return tuple(Route.parse(f"{part}@0") for part in value.split(",") if part.strip())
    except ValueError:
        raise ValueError(f"{value!r}: write START:END, such as 2:8, 2:-4 or 1/6:2/3, without a rate") from None


Blocks = Annotated[
    tuple[Route, ...],  # with rate 0: a rule gives its own rates
    BeforeValidator(_read_blocks, json_schema_input_type=str),
    PlainSerializer(lambda routes: ",".join(str(route).partition("@")[0] for route in routes), return_type=str),
]


def _iteration_or_share(value: float) -> float:
    if isinstance(value, int) and value < 1:
        raise ValueError(f"{value}: iterations count from 1; a share of the training is a number between 0 and 1")
    if isinstance(value, float) and not 0 < value < 1:
        raise ValueError(f"{value:g}: a share of the training must lie between 0 and 1; an iteration is a whole number")
    return value


Moment = Annotated[Int | Float, AfterValidator(_iteration_or_share), BeforeValidator(no_boolean)]


def iteration_at(moment: float, iterations: int) -> int:
    """The iteration of a moment: itself, or the share of `iterations`, rounded, at least 1."""
    return moment if isinstance(moment, int) else max(1, round(moment * iterations))


class GuidanceOptions(Model):
    """A rule with its settings. Each subclass has its rule's name: `name: Literal["mine"] = "mine"`."""

    name: str = ""

    @property
    def branches(self) -> tuple[Branch, Branch | None]:
        """The strong branch, and the weak one that it is guided by; None: the strong one alone is the prediction."""
        raise NotImplementedError

    @property
    def guided_times(self) -> tuple[float, float] | None:
        """Guided at low < t <= high, the objective's times; None: at all."""
        return None

    @property
    def routed_blocks(self) -> tuple[Route, ...] | None:
        """What tokens bypass, or a branch leaves out; empty: the blocks of the cell's routes; None: nothing."""
        return None

    @property
    def rates(self) -> tuple[float, ...]:
        """Shares of the tokens that bypass `routed_blocks`, in the order of the branches; empty: all tokens do."""
        return ()

    @property
    def weak_row(self) -> str | None:
        """The row whose network is the weak branch's, where that has other weights; None: the evaluated one's."""
        return None

    @property
    def weak_snapshot(self) -> int | float | None:
        """The iteration of these weights, or the share of their training; None: the end."""
        return None

    def with_blocks(self, blocks: Sequence[Route]) -> Self:
        """The same rule with `routed_blocks`, which its field `blocks` holds, in block numbers."""
        return self.model_copy(update={"blocks": tuple(blocks)})

    def with_weights(self, row: str, iteration: int) -> Self:
        """The same rule with the weights of its weak branch, its fields `row` and `snapshot`, written out."""
        named_row = {} if self.weak_row is None else {"row": row}
        return self.model_copy(update={"snapshot": iteration, **named_row})


@dataclass(frozen=True, kw_only=True)
class GuidanceFamily:
    """A rule of guidance.

    Args:
        name: as a suite writes it.
        options: its typed settings, with its branches; the docstring's first line is shown by `tread-bench list`.
    """

    name: str
    options: type[GuidanceOptions]
    source: str = field(default="", compare=False)  # the distribution that announces it


# Traits that a plan writes out in numbers: what does so, and the field that it writes.
_WRITTEN_OUT = (("routed_blocks", "with_blocks", "blocks"), ("weak_snapshot", "with_weights", "snapshot"))


def _wrong_with(rule: GuidanceFamily) -> str:
    """By which rule it cannot be used; empty: it can."""
    if wrong := wrong_options(rule, GuidanceOptions):
        return wrong
    if rule.options.branches is GuidanceOptions.branches:
        return "its options must define branches"
    for trait, writer, key in _WRITTEN_OUT:
        is_said = getattr(rule.options, trait) is not getattr(GuidanceOptions, trait)
        is_written = getattr(rule.options, writer) is not getattr(GuidanceOptions, writer)
        if is_said and not is_written and key not in rule.options.model_fields:
            return f"its options define {trait}, so they must have the field {key}, or define {writer}"
    return ""


GUIDANCE = Kind(word="guidance", group="tread_bench.guidance", of=GuidanceFamily, wrong_with=_wrong_with)


@cache
def guidance_rules() -> dict[str, GuidanceFamily]:
    """Every rule that is announced and can be used, by name."""
    return announced(GUIDANCE)


def find_guidance(name: str) -> GuidanceFamily:
    """The rule of that name. Raises ValueError."""
    return find(name, guidance_rules(), "guidance")
