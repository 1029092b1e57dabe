"""The method of a cell: the settings of one that is announced."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from tread_bench.core.methods import MethodOptions, find_method, methods

if TYPE_CHECKING:
    MethodChoice = MethodOptions
else:
    MethodChoice = Annotated[
        reduce(or_, (method.options for method in methods().values())), Field(discriminator="name")
    ]

PLAINLY_DENSE = find_method("dense").options()  # what all else is compared with
PLAINLY_ROUTED = find_method("tread").options()  # nothing but routes
