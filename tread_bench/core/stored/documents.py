"""Models of all stored JSON documents, validated when they are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from tread_bench.core.config.base import is_unused
from tread_bench.core.config.compute import Timing
from tread_bench.core.config.suite import Cell, Hypothesis
from tread_bench.core.describe.routes import format_routes
from tread_bench.core.names import canonical_json
from tread_bench.core.problems import validation_problems
from tread_bench.core.stored.conditions import Conditions, RunNumerics
from tread_bench.core.stored.records import (
    SCHEMA_VERSION,
    DataFile,
    EqualTime,
    MemoryKind,
    Part,
    Record,
    Role,
    TimingFigures,
    Tuning,
)

Model = TypeVar("Model", bound=BaseModel)
_REQUESTED = ("cell", "suite", "row", "seed", "reference", "role", "backbone", "config")


class Document(BaseModel):
    """The keys of a document that are read; others are allowed."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)


class SuiteAbout(Document):
    name: str = Field(min_length=1)
    description: str = ""


class GitState(Document):
    commit: str
    committed: str | None = None
    changed: bool


class Choices(Document):
    """Numerical choices and versions of a run, on the machines where its cells run."""

    numerics: RunNumerics
    versions: dict[str, str]
    accept_other_numerics: bool = False
    track: Literal["tensorboard"] | None = None  # what gets the curves of cells while they train

    @property
    def conditions(self) -> Conditions:
        """The conditions of every cell on such a machine."""
        return Conditions(**self.numerics.stated(), versions=self.versions)


class Registered(Document):
    """The hypothesis under which a run was started, and the hash of its canonical JSON."""

    hypothesis: Hypothesis
    sha256: str

    @classmethod
    def of(cls, hypothesis: Hypothesis) -> Registered:
        written = canonical_json(hypothesis.model_dump(mode="json"))
        return cls(hypothesis=hypothesis, sha256=hashlib.sha256(written.encode()).hexdigest())


class RunPlan(Choices):
    """plan.json; `track` is that of the run's latest start."""

    schema_version: Literal[2] = SCHEMA_VERSION
    suite: SuiteAbout
    smoke: bool = False
    stand_ins: list[str] = Field(default_factory=list)  # what of a smoke run is random, in place of missing files
    timing: Timing
    cells: list[str]
    references: dict[str, str]
    rows: dict[str, tuple[str, int]]
    started: str
    git: GitState | None = None
    hardware: dict[str, JsonValue] = Field(default_factory=dict)
    files: dict[str, DataFile] = Field(default_factory=dict)
    equal_time: dict[str, EqualTime] = Field(default_factory=dict)  # of cells that are evaluated there as well
    tuning: dict[str, Tuning] = Field(default_factory=dict)  # by row, of a suite that chooses learning rates
    pending: NonNegativeInt = 0  # cells that are planned once their learning rate is chosen
    registered: Registered | None = Field(None, exclude_if=is_unused)  # what the run's suite states before it runs

    @property
    def planned(self) -> int:
        """How many cells the run has in all."""
        return len(self.cells) + self.pending

    @property
    def tuning_cells(self) -> set[str]:
        """The cells that only help to choose learning rates."""
        found = set[str]()
        for tuning in self.tuning.values():
            for candidate in (*tuning.candidates, *tuning.check):
                found.update(candidate.cells)
        return found

    @model_validator(mode="after")
    def _names_each_cell_once(self) -> RunPlan:
        named = set(self.cells)
        if len(named) < len(self.cells) or not named == self.references.keys() == self.rows.keys():
            raise ValueError("cells, references and rows must name the same cells, each once")
        return self


# What a cell reads weights for: evaluation, guidance's weak branch, and to start its training from.
Reads = Literal["network", "weak", "start"]


class WeightsRef(Document):
    """Reference to weights of another cell; `run` is "" for the same run."""

    cell: str
    iteration: PositiveInt
    run: str = ""


class CellRequest(Document):
    """cell.json."""

    schema_version: Literal[2] = SCHEMA_VERSION
    cell: str
    suite: str
    row: str
    seed: NonNegativeInt
    role: Role = "study"
    reference: str
    backbone: str
    config: dict[str, JsonValue]
    sources: dict[Reads, WeightsRef] = Field(default_factory=dict)
    timed_with: dict[str, JsonValue] | None = None  # the dense cell that it is timed in turn with, if other

    @cached_property
    def configuration(self) -> Cell:
        """Return `config`, validated. Raises ValidationError."""
        return Cell.model_validate(self.config)


def initial_record(request: CellRequest, plan: RunPlan, **fields: Any) -> Record:
    """Create a record of what was requested, under which conditions; `status` is failed unless `fields` say otherwise.

    Args:
        request: the cell's cell.json.
        plan: the run's plan.json.
    """
    cell = request.configuration
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    routes = family.resolve(spec, cell.routes, cell.selector)
    known = {
        "status": "failed",
        "family": family.name,
        "method": cell.method.name,
        "routes": format_routes(routes),
        "selector": cell.selector if routes else "",
        "num_blocks": family.num_blocks(spec),
        "conditions": plan.conditions,
        "tuning": plan.tuning.get(request.row),  # a tuning cell's row has a name of its own
        "equal_time": plan.equal_time.get(request.cell),
        **{name: getattr(request, name) for name in _REQUESTED},
    }
    return Record(**{**known, **fields})


class TimingRequest(Document):
    timing: Timing
    conditions: dict[str, JsonValue]


class MeasuredSpeed(Document):
    """The result of a process that timed steps."""

    timing: TimingFigures
    conditions: Conditions


class RowTiming(MeasuredSpeed):
    """timings/<row>.json: speed and memory of a row, shared by its seeds."""

    row_key: str
    asked: TimingRequest


class MeasuredMemory(Document):
    """The result of a process that measured memory."""

    peak_memory_mib: PositiveFloat | None
    memory_kind: MemoryKind | None
    conditions: Conditions


class Export(Part):
    """A run in the form in which it is shared: what a report reads, without weights, images and logs, and with file
    names instead of paths.
    """

    plan: RunPlan
    records: list[Record]


def parsed(text: str | bytes, model: type[Model]) -> Model | list[str]:
    """Validate the JSON of a document; return it, or all mistakes with their fields.

    Types are strict: a text is not a number, true is not a count, and 1.5 is not an integer. Configurations of records
    may have keys of another version, and name plug-ins that are not installed here.
    """
    try:
        document = model.model_validate_json(text, strict=True)
    except ValidationError as error:
        return _texts(error, model)
    if isinstance(document, Record | CellRequest):
        written = json.dumps(document.config)
        return [*_config_problems(written, allows_unknown=isinstance(document, Record))] or document
    return document


@lru_cache(maxsize=4096)  # all seeds of a row have the same configuration, and so have its request and its record
def _config_problems(config: str, *, allows_unknown: bool) -> Sequence[str]:
    """Mistakes in a cell's configuration, which is given as JSON."""
    try:
        cell = Cell.model_validate_json(config)
    except ValidationError as error:
        is_unknown = all(_is_unknown(found) for found in error.errors())
        return [] if allows_unknown and is_unknown else _texts(error, Cell, ("config",))
    try:
        cell.backbone.spec(cell.data)
    except ValidationError as error:
        return _texts(error, BaseModel, ("config", "backbone"))
    except ValueError:  # a backbone that is not installed here
        pass
    return []


def _is_unknown(found: ErrorDetails) -> bool:
    """Whether an error is a key that this version does not know, or a plug-in that is not installed here.

    Reports compute with the schedule, of which every key must be known.
    """
    is_name = isinstance(found["input"], dict) and isinstance(found["input"].get("name"), str)
    is_of_others = found["type"] == "extra_forbidden" or (found["type"] == "union_tag_invalid" and is_name)
    return is_of_others and found["loc"][0] != "schedule"


def _texts(error: ValidationError, model: type[BaseModel], above: tuple[str, ...] = ()) -> list[str]:
    return list(dict.fromkeys(problem.message.strip() for problem in validation_problems(error, model, above)))
