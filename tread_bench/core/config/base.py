"""The base of all configuration models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MAX_NUMBER = 10**9  # maximum of anything that is counted
SEEDS_PER_GROUP = 1000  # distance of the seeds of two seed groups


class Model(BaseModel):
    """A frozen model that refuses unknown keys and numbers that are not finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Options(Model):
    """A plug-in's settings in a suite. A subclass states the plug-in's name: `name: Literal["mine"] = "mine"`."""

    name: str = ""


def is_unused(value: object) -> bool:
    """Return whether a key is left out where a cell is written: its id is the hash of that, and outlives added keys."""
    return not value


def no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {str(value).lower()}")
    return value


def or_text(settings: Any, key: str, texts: Any = str) -> BeforeValidator:
    """Return a validator that reads a text as settings with this `key` alone; the schema allows both."""

    def read(value: object) -> object:
        return {key: value} if isinstance(value, str) else value

    return BeforeValidator(read, json_schema_input_type=texts | settings)


def one_of(announced: Mapping[str, Any]) -> Any:
    """Return a union type of the `options` of what is announced, distinguished by their `name`, or just the name."""
    options: Any = reduce(or_, (one.options for one in announced.values()))
    settings: Any = Annotated[options, Field(discriminator="name")]
    return Annotated[settings, or_text(settings, "name", Literal[tuple(announced)])]


def some_of(announced: Mapping[str, Any], noun: str, example: str) -> Any:
    """Return a type of one or a list of the `options` of what is announced, each with its name or as just the name."""
    one = one_of(announced)

    def read(value: object) -> object:
        if not isinstance(value, str | dict | list | tuple):
            raise ValueError(f"must be a list of {noun} such as [{example}], or [] for none")
        return (value,) if isinstance(value, str | dict) else value

    names: Any = Literal[tuple(announced)]
    return Annotated[tuple[one, ...], BeforeValidator(read, json_schema_input_type=names | list[one])]  # type: ignore[valid-type]


Int = Annotated[int, Field(le=MAX_NUMBER), BeforeValidator(no_boolean)]
Whole = Annotated[int, BeforeValidator(no_boolean)]  # with a maximum of its own, which that of Int would replace
Float = Annotated[float, BeforeValidator(no_boolean)]
Share = Annotated[float, Field(ge=0, lt=1), BeforeValidator(no_boolean)]
