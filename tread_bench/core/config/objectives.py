"""The objective of a cell: the settings of one that is announced."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from tread_bench.core.objectives import ObjectiveOptions, find_objective, objectives

if TYPE_CHECKING:
    ObjectiveChoice = ObjectiveOptions
else:
    _ANY_OPTIONS = reduce(or_, (objective.options for objective in objectives().values()))
    ObjectiveChoice = Annotated[_ANY_OPTIONS, Field(discriminator="name")]

DEFAULT_OBJECTIVE = find_objective("flow").options()
