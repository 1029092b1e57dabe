"""Mistakes in a suite, each with its place and in the user's terms, also those that pydantic finds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from tread_bench.core.errors import UserError, printable, shortened_middle
from tread_bench.core.names import unknown

Loc = tuple[str | int, ...]  # keys and list indices from the top of a suite, or of a cell
_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a source; lines and columns count from 1, and 0 means that the source is a single argument."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: what is wrong, the rule and the way out.

    `loc` is its location in the suite; with `at_key`, the mistake is in the key there, not in its value.
    """

    message: str
    loc: Loc = ()
    at_key: bool = False
    place: Place | None = None

    def __str__(self) -> str:
        message = shortened_middle(printable(self.message))
        if self.place:
            return f"{self.place}: {message}"
        return f"{printable(dotted(self.loc))}: {message}" if self.loc else message


class SuiteError(UserError):
    """All mistakes of a suite; `problems` lists each exactly once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__(*self.problems)

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:_SHOWN]]
        rest = len(self.problems) - len(lines)
        return "\n".join([*lines, f"and {rest} more"] if rest else lines)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise SuiteError with the problems, if there are any."""
    if found := [*problems]:
        raise SuiteError(found)


@contextmanager
def at(*loc: str | int) -> Iterator[None]:
    """Raise a ValueError of the block as a SuiteError with that location."""
    try:
        yield
    except SuiteError:
        raise
    except ValueError as error:
        raise SuiteError([Problem(str(error), loc)]) from None


@dataclass
class Places:
    """Where each key and each value of a suite was written."""

    values: dict[Loc, Place] = field(default_factory=dict)
    keys: dict[Loc, Place] = field(default_factory=dict)

    def find(self, problem: Problem) -> Place | None:
        """Return the place of the problem's location, or of the nearest enclosing one."""
        known = self.keys if problem.at_key else self.values
        for length in range(len(problem.loc), -1, -1):
            if (loc := problem.loc[:length]) in known:
                return known[loc]
        return self.values.get(())

    def replace(self, loc: Loc, place: Place) -> None:
        """Record that `loc` and everything below it was written at `place`."""
        for known in (self.values, self.keys):
            for old in [old for old in known if old[: len(loc)] == loc]:
                del known[old]
            known[loc] = place


def dotted(loc: Loc) -> str:
    return ".".join(map(str, loc))


def shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def validation_problems(error: ValidationError, model: type[BaseModel], above: Loc = ()) -> list[Problem]:
    """Return one problem per pydantic error, with keys instead of union tags, and the nearest known name."""
    errors = error.errors(include_url=False)
    holders = {found["loc"][:n] for found in errors for n in range(len(found["loc"]))}
    # A list whose items are wrong has not too few of them.
    told = [found for found in errors if found["type"] != "too_short" or found["loc"] not in holders]
    return [_problem(found, model, above) for found in told]


def all_problems(values: Mapping[str, Any], model: type[BaseModel], above: Loc = ()) -> list[Problem]:
    """Return the mistakes in the values of a model; rules that join several keys are checked where each is in order."""
    try:
        model.model_validate(values)
    except ValidationError as error:
        return validation_problems(error, model, above)
    return []


def _problem(found: Mapping[str, Any], model: type[BaseModel], above: Loc) -> Problem:
    loc, holders, description = _locate(found["loc"], model)
    loc, name = (*above, *loc), dotted((*above, *loc))
    context = found.get("ctx", {})
    about = f" ({description})" if description else ""
    match found["type"]:
        case "extra_forbidden":
            known = sorted({key for holder in holders for key in holder.model_fields})
            return Problem(unknown(f"{dotted(loc[:-1])} key".strip(), loc[-1], known), loc, at_key=True)
        case "missing":
            return Problem(f"{name} is missing: add it{about}", loc, at_key=True)
        case "union_tag_invalid":
            return Problem(unknown(name, context["tag"], _quoted(context["expected_tags"])), (*loc, "name"))
        case "union_tag_not_found":
            return Problem(f"{name}.name is missing: add it", loc, at_key=True)
        case "literal_error":
            return Problem(unknown(name, found["input"], _quoted(context["expected"])), loc)
        case "value_error":
            return Problem(f"{name}: {context['error']}" if name else str(context["error"]), loc)
        case "string_pattern_mismatch":
            rule = f"must match {context['pattern']}"
            return Problem(f"{name} {shortened(found['input'])}: {rule}", loc, at_key=found["loc"][-1] == "[key]")
    rule = re.sub(r"^(Input|\w+) should ", "must ", found["msg"])
    return Problem(f"{name} {shortened(found['input'])}: {rule}{about}", loc)


def _locate(raw: Loc, model: type[BaseModel]) -> tuple[Loc, list[type[BaseModel]], str]:
    """Pydantic's location as keys without union tags, the models of the last key, and that field's description."""
    loc: list[str | int] = []
    holders, below, description = [model], [model], ""
    for part in raw:
        if part == "[key]":
            continue
        if len(below) > 1 and isinstance(part, str):
            below = [choice for choice in below if part in get_args(choice.model_fields["name"].annotation)]
            holders = below
            continue
        holders = below or holders
        loc.append(part)
        fields = [holder.model_fields[str(part)] for holder in below if part in holder.model_fields]
        if fields:
            below, description = models_in(fields[0].annotation), fields[0].description or ""
    return tuple(loc), holders, description


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def _quoted(text: str) -> list[str]:
    """The values in pydantic's list of expected values: "'a', 'b' or 3"."""
    return [word.strip().strip("'") for word in re.split(r", | or ", text)]
