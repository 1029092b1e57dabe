"""The models of a cell and of a suite."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from tread_bench.core.config.backbones import BackboneChoice, Routes
from tread_bench.core.config.base import SEEDS_PER_GROUP, Int, Model, is_unused, no_boolean, or_text
from tread_bench.core.config.choices import (
    DEFAULT_DATA,
    DEFAULT_OBJECTIVE,
    PLAINLY_DENSE,
    Auxiliary,
    DataChoice,
    MethodChoice,
    ObjectiveChoice,
)
from tread_bench.core.config.compute import Compute, Limits, Timing
from tread_bench.core.config.evaluate import Evaluate
from tread_bench.core.config.hypothesis import Hypothesis
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.config.training import CONSTANT, RoutingSchedule, Training
from tread_bench.core.config.tune import Tune
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR

NAME = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
ROW_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:+@/-]{0,63}$"
MAX_SEEDS = 1000


class Cell(Model):
    """One training, one measurement of speed, or one evaluation of weights that another cell has trained.

    It is fully resolved, the same on every machine.
    """

    backbone: Annotated[BackboneChoice, or_text(BackboneChoice, "name")]
    data: DataChoice = DEFAULT_DATA
    method: MethodChoice = PLAINLY_DENSE
    routes: Routes = ()
    selector: str = Field(DEFAULT_SELECTOR, description="which tokens bypass")
    schedule: RoutingSchedule = RoutingSchedule()
    auxiliary: Auxiliary = Field((), description="losses added to the method's own")
    objective: ObjectiveChoice = DEFAULT_OBJECTIVE
    training: Training
    sampling: Sampling = Sampling()
    metrics: Metrics = Metrics()
    evaluate: Annotated[Evaluate, or_text(Evaluate, "row")] | None = Field(
        None, description="row whose weights are evaluated; nothing is trained"
    )
    seed_group: Int = Field(
        0,
        ge=0,
        exclude_if=is_unused,
        description=f"shifts the row's seeds by {SEEDS_PER_GROUP} times this, to train it anew",
    )

    @property
    def trains(self) -> bool:
        """Whether it trains weights of its own."""
        return self.evaluate is None and self.training.iterations > 0

    @property
    def is_timed_only(self) -> bool:
        """Whether nothing is trained or evaluated: only costs, speed and memory of a training step are measured."""
        return self.evaluate is None and not self.trains

    @property
    def is_plainly_dense(self) -> bool:
        """Whether it has no route, no auxiliary loss and no schedule, so that other cells are compared with it."""
        return self.method == PLAINLY_DENSE and not self.auxiliary and self.schedule == RoutingSchedule()

    @property
    def depends_on_length(self) -> bool:
        """Whether a step depends on how long the whole training is, by its share of routing or its learning rate."""
        return self.schedule.depends_on_length or self.training.decay != CONSTANT

    @property
    def generates(self) -> bool:
        """Whether images are generated and scored."""
        return self.metrics.generate and not self.is_timed_only


def _read_seeds(value: object) -> object:
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r}: must be a number of seeds, or a list of seeds such as [3, 7]")
    if not 1 <= value <= MAX_SEEDS:
        raise ValueError(f"{value} seeds: the number must lie in 1..{MAX_SEEDS}; [7] is the single seed 7")
    return tuple(range(value))


def _all_differ(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("a seed is written twice; every seed must differ")
    return seeds


Seed = Annotated[int, Field(ge=0, lt=2**31), BeforeValidator(no_boolean)]
Seeds = Annotated[
    tuple[Seed, ...],
    Field(min_length=1, max_length=MAX_SEEDS),
    BeforeValidator(_read_seeds, json_schema_input_type=int | list[int]),
    AfterValidator(_all_differ),
]
_MISSING = ("NA", "N/A", "n/a", "NULL", "null", "NaN", "nan", "None")  # values that pandas.read_csv reads as missing


def _is_no_missing_value(name: str) -> str:
    if name in _MISSING:
        raise ValueError(f"{name!r}: is a missing value to whoever reads results.csv with pandas; choose another name")
    return name


RowName = Annotated[str, Field(pattern=ROW_NAME), AfterValidator(_is_no_missing_value)]
SuiteName = Annotated[str, Field(pattern=NAME), AfterValidator(_is_no_missing_value)]


class Suite(Model):
    """A study: a base, a matrix over it, named rows, and seeds. Its cells are matrix x rows x seeds.

    Keys of a cell are nested or dotted (`training.iterations`). A later layer extends an earlier one, in the order
    base, matrix, row, overrides.
    """

    name: SuiteName = Field(description="file-safe name; the run folder is named after it")
    description: str = ""
    seeds: Seeds = Field((0,), description="a list, or a number n for 0 .. n-1")
    base: dict[str, Any] = Field(description="keys of a cell shared by all")
    matrix: dict[str, Any] = Field(default_factory=dict, description="dotted key -> values; also include and exclude")
    rows: dict[RowName, dict[str, Any] | None] = Field(default_factory=dict, description="row name -> keys of a cell")
    overrides: dict[str, Any] = Field(
        default_factory=dict, description="keys of a cell applied last; --set writes here"
    )
    tune: Tune | None = Field(
        None, description="choose each row's learning rate before its study; empty: rows have the one that is given"
    )
    hypothesis: Hypothesis | None = Field(
        None, description="what the study states before it runs; a run that was started refuses another one"
    )
    compute: Compute = Compute()
    timing: Timing = Timing()
    limits: Limits = Limits()
