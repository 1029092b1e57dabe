"""The method of a cell: the settings of one that is announced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tread_bench.core.config.base import one_of
from tread_bench.core.methods import MethodOptions, find_method, methods

if TYPE_CHECKING:
    MethodChoice = MethodOptions
else:
    MethodChoice = one_of(method.options for method in methods().values())

PLAINLY_DENSE = find_method("dense").options()  # what all else is compared with
PLAINLY_ROUTED = find_method("tread").options()  # nothing but routes
