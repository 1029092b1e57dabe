"""The base of all configuration models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MAX_NUMBER = 10**9  # maximum of anything that is counted
SEEDS_PER_GROUP = 1000  # distance of the seeds of two seed groups


class Model(BaseModel):
    """A frozen model that refuses unknown keys and numbers that are not finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def is_unused(value: object) -> bool:
    """Return whether a key is left out where a cell is written: its id is the hash of that, and outlives added keys."""
    return not value


def no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {str(value).lower()}")
    return value


def one_of(announced: Mapping[str, Any]) -> Any:
    """Return a union type of the `options` of what is announced, distinguished by their `name`."""
    return Annotated[reduce(or_, (one.options for one in announced.values())), Field(discriminator="name")]


def named_settings(noun: str, example: str) -> Callable[[object], object]:
    """Return a validator that reads a name, settings with a name, or a list of either as a tuple of settings."""

    def read(value: object) -> object:
        if isinstance(value, str | dict):
            value = (value,)
        if not isinstance(value, list | tuple):
            raise ValueError(f"must be a list of {noun} such as [{example}], or [] for none")
        return tuple({"name": one} if isinstance(one, str) else one for one in value)

    return read


Int = Annotated[int, Field(le=MAX_NUMBER), BeforeValidator(no_boolean)]
Float = Annotated[float, BeforeValidator(no_boolean)]
Share = Annotated[float, Field(ge=0, lt=1), BeforeValidator(no_boolean)]
