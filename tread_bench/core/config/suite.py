"""The models of a cell and of a suite, with its hypothesis and its tuning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from tread_bench.core.config.base import Float, Int, Model, Whole, is_unused, no_boolean, or_text
from tread_bench.core.config.choices import (
    DEFAULT_DATA,
    DEFAULT_OBJECTIVE,
    PLAINLY_DENSE,
    Auxiliary,
    BackboneChoice,
    DataChoice,
    MethodChoice,
    ObjectiveChoice,
    Routes,
)
from tread_bench.core.config.compute import Compute, Limits, Timing
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.config.training import CONSTANT, Evaluate, RoutingSchedule, Training
from tread_bench.core.describe.data_sources import Place
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR

NAME = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
ROW_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:+@/-]{0,63}$"
MAX_SEEDS = 1000
SAME_BUDGET = 1.05  # ratio up to which the training MACs of two arms or widths are one length
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the suite's learning rate: the default candidates
FIRST_SEED = 1_000_000  # of the tuning seeds, which are none of a study's
LEAST = 3  # candidates: the best one needs a worse one on both sides
MOST_SEEDS = 100

WeightsOfRow = Annotated[Evaluate, or_text(Evaluate, "row")]


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
    evaluate: WeightsOfRow | None = Field(None, description="row whose weights are evaluated; nothing is trained")
    seed_group: Int = Field(0, ge=0, exclude_if=is_unused, description="shifts the row's seeds, to train it anew")

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


def files_of(cell: Cell) -> Iterator[tuple[Place, str]]:
    """Yield the files of data, decoder, real images, reference and feature networks, each with its place in the cell.

    No file is opened.
    """
    data = cell.data
    yield from ((("data", *place), file) for place, file in data.family.files(data, cell.generates))
    yield from files_beside_data(cell)


def files_beside_data(cell: Cell) -> Iterator[tuple[Place, str]]:
    """Yield the files of reference, feature networks, metrics and losses.

    What measures samples is read where some are generated.
    """
    for index, loss in enumerate(cell.auxiliary):
        yield from ((("auxiliary", index, key), file) for key, file in loss.family.files(loss))
    if not cell.generates:
        return
    metrics = cell.metrics
    for key in ("extractor_weights", "inception_weights", "reference"):
        if (file := getattr(metrics, key)) is not None:
            yield ("metrics", key), file
    if (network := metrics.extractor) is not None:
        yield from ((("metrics", "extractor", key), file) for key, file in network.family.files(network))
    for index, metric in enumerate(metrics.also):
        yield from ((("metrics", "also", index, key), file) for key, file in metric.family.files(metric))


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


class Hypothesis(Model):
    """A pre-registered hypothesis; a run that was started under one refuses another."""

    claim: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)] = Field(
        description="what the study is to show, in a sentence"
    )
    test: Literal["onset"] = Field(description="rule that decides; onset: from how much compute on a route pays")
    margin: Float = Field(ge=1, description="compute of a reference over a route's at equal loss, to be exceeded")
    stop: Int = Field(ge=2, description="number of seeds after which the study ends, whatever they show")


def _ascending(candidates: tuple[float, ...]) -> tuple[float, ...]:
    if len(candidates) < LEAST:
        raise ValueError(f"{len(candidates)} candidates: the best needs a worse one on both sides, so {LEAST} or more")
    if len(set(candidates)) < len(candidates):
        raise ValueError("a candidate is written twice; every one must differ")
    return tuple(sorted(candidates))


Rate = Annotated[Float, Field(gt=0)]


class Tune(Model):
    """Each row is trained at every candidate on seeds of its own, then runs its study at its best one.

    The best candidate is the one of lowest dense validation loss, averaged over the tuning seeds.
    """

    candidates: Annotated[tuple[Rate, ...], AfterValidator(_ascending)] | None = Field(
        None, description="learning rates that every row is trained at; empty: 1/4, 1/2, 1, 2 and 4 times the suite's"
    )
    seeds: Whole = Field(2, ge=1, le=MOST_SEEDS, description="trainings at each candidate, on seeds that no study has")
    share: Float = Field(0.5, gt=0, le=1, description="share of a row's iterations that these trainings have")
    shortest: bool = Field(False, exclude_if=is_unused, description="other lengths have the rate of the shortest")
    check: tuple[str, ...] = Field((), exclude_if=is_unused, description="rows that try all at their own length too")
    generate: bool = Field(False, description="true: generate images at their end too, so that FID is measured")

    @model_validator(mode="after")
    def _checks_what_is_shared(self) -> Tune:
        if self.check and not self.shortest:
            raise ValueError("check has no effect: rows have the best learning rate of their own length; set shortest")
        return self

    @property
    def seed_numbers(self) -> range:
        """The tuning seeds."""
        return range(FIRST_SEED, FIRST_SEED + self.seeds)

    def rates(self, learning_rate: float) -> tuple[float, ...]:
        """Return the candidates, ascending; `learning_rate` is that of the suite."""
        return self.candidates or tuple(factor * learning_rate for factor in FACTORS)


class Suite(Model):
    """A study: a base, a matrix over it, named rows, and seeds. Its cells are matrix x rows x seeds.

    Keys of a cell are nested or dotted (`training.iterations`). A later layer extends an earlier one, in the order
    base, matrix, row, overrides.
    """

    name: SuiteName = Field(description="file-safe name; the run folder is named after it")
    description: str = ""
    seeds: Seeds = Field((0,), description="a list, or a number n for 0 .. n-1")
    base: dict[str, Any] = Field(description="keys of a cell shared by all")
    matrix: dict[str, Any] = Field(default_factory=dict, description="dotted key -> values; also include")
    rows: dict[RowName, dict[str, Any] | None] = Field(default_factory=dict, description="row name -> keys of a cell")
    overrides: dict[str, Any] = Field(default_factory=dict, description="keys of a cell, applied last, as by --set")
    tune: Tune | None = Field(None, description="choose each row's learning rate before its study; empty: as given")
    hypothesis: Hypothesis | None = Field(None, description="what the study states; a begun run refuses another one")
    compute: Compute = Compute()
    timing: Timing = Timing()
    limits: Limits = Limits()
