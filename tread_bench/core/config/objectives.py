"""The objective of a cell: settings of any announced objective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tread_bench.core.config.base import one_of
from tread_bench.core.describe.objectives import ObjectiveOptions, find_objective, objectives

if TYPE_CHECKING:
    ObjectiveChoice = ObjectiveOptions
else:
    ObjectiveChoice = one_of(objective.options for objective in objectives().values())

DEFAULT_OBJECTIVE = find_objective("flow").options()
