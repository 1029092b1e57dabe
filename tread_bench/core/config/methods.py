"""The method of a cell: settings of any announced method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tread_bench.core.config.base import one_of
from tread_bench.core.describe.methods import MethodOptions, find_method, methods

if TYPE_CHECKING:
    MethodChoice = MethodOptions
else:
    MethodChoice = one_of(method.options for method in methods().values())

PLAINLY_DENSE = find_method("dense").options()  # the baseline of all comparisons
PLAINLY_ROUTED = find_method("tread").options()  # plain routing
