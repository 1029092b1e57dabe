"""Description of MaskDiT's loss on tokens that bypass a route, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from tread_bench.core.config.base import Float
from tread_bench.core.describe.methods import LossFamily, LossOptions
from tread_bench.core.describe.objectives import ObjectiveOptions, objectives
from tread_bench.core.problems import Problem

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


class MaeOptions(LossOptions):
    """Tokens that bypassed a route predict their own noised pixels, over all routes (MaskDiT's loss)."""

    name: Literal["mae"] = "mae"
    weight: Float = Field(0.1, gt=0)
    route_weights: tuple[Annotated[Float, Field(ge=0)], ...] | None = Field(
        None, description="weights of the routes, in order; empty: 1 / number of routes"
    )


def _check(setting: Setting, options: MaeOptions) -> Iterator[Problem]:
    routes, weights = len(setting.cell.routes), options.route_weights
    if setting.cell.method.family.takes_routes and weights is not None and len(weights) != routes:
        message = f"route_weights {list(weights)}: give one for each of the {routes} routes"
        yield Problem(message, ("route_weights",))
    if setting.spec.patch_values == 1:
        rule = "its loss on pixels normalises each patch, and here a patch is a single value"
        yield Problem(f"auxiliary mae: {rule}: set backbone.patch: 2, or remove it")
    if setting.cell.objective.family.predicts_noise:
        yield Problem(f"auxiliary mae: {no_estimate(setting.cell.objective)}, or remove it")


def no_estimate(objective: ObjectiveOptions) -> str:
    """Return why a loss on the estimate of the data does not go with an objective that predicts noise."""
    able = ", ".join(one.name for one in objectives().values() if not one.predicts_noise)
    rule = f"its loss is on the estimate of the data, which objective {objective.name} leaves open"
    return f"{rule}: choose one of {able}"


MAE = LossFamily(
    name="mae",
    options=MaeOptions,
    builder="tread_bench.model.losses.mae.network:build",
    needs_absent_tokens=True,
    check=_check,
)
