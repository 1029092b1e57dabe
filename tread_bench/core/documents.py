"""Models of all stored JSON documents, validated when they are read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    RootModel,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from tread_bench.core.conditions import Conditions, PluginCode, RunNumerics
from tread_bench.core.config.compute import Timing
from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import printable
from tread_bench.core.identity import Identity, compact_json
from tread_bench.core.problems import dotted, shortened, validation_problems
from tread_bench.core.records import SCHEMA_VERSION, DataFile, MemoryKind, Part, Record, TimingFigures

DEEPEST = 50  # nesting of lists and objects
LARGEST = 2**63  # exclusive bound of integers: tables hold 64 bits
_NOT_ASKED: dict[str, JsonValue] = {
    "backbone": {"name": "unknown"},
    "training": {"iterations": 1},
}  # a record may lack unread keys
_DIGITS_AS_0, _BLANK = bytes.maketrans(b"123456789E", b"000000000e"), b" \t\n\r+"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_LONG = b"0" * 19  # as many digits as 2**63 has
_BEFORE_NUMBERS = (b"[", b",", b":", b"-")
EXPORT_VERSION: Literal[1] = 1  # version of exports, whose parts have versions of their own
EXPORTED: Literal["tread-bench export"] = "tread-bench export"
Model = TypeVar("Model", bound=BaseModel)
SHOWN = 5  # problems of one document that a message lists


class Document(BaseModel):
    """The keys of a document that are read; others are allowed."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)


def _time(text: str) -> str:
    """Raise ValueError if the text is not a valid time."""
    try:
        datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not an ISO 8601 time") from None
    return text


Time = Annotated[str, AfterValidator(_time)]


class SuiteAbout(Document):
    name: str = Field(min_length=1)
    description: str = ""


class GitState(Document):
    commit: str
    committed: Time | None = None
    changed: bool


class Choices(Document):
    """Numerical choices and versions of a run, on the machines where its cells run."""

    numerics: RunNumerics
    versions: dict[str, str]
    accept_other_numerics: bool = False

    @property
    def conditions(self) -> Conditions:
        """The conditions of every cell on such a machine."""
        return Conditions.of(self.numerics, self.versions)


class RunPlan(Document):
    """plan.json."""

    schema_version: PositiveInt = SCHEMA_VERSION
    suite: SuiteAbout
    smoke: bool = False
    stand_ins: list[str] = Field(default_factory=list)  # what of a smoke run is random, in place of missing files
    timing: Timing
    cells: list[str]
    references: dict[str, str]
    rows: dict[str, tuple[str, int]] = Field(default_factory=dict)
    started: Time = ""  # "": written by an older version
    git: GitState | None = None
    hardware: dict[str, JsonValue] = Field(default_factory=dict)
    numerics: RunNumerics
    versions: dict[str, str]
    plugins: PluginCode = Field(default_factory=dict)  # as it was when a cell that uses it last began
    accept_other_numerics: bool = False
    files: dict[str, DataFile] = Field(default_factory=dict)

    @property
    def conditions(self) -> Conditions:
        """The conditions of all cells of the run, on machines like the one where the run began."""
        return Conditions.of(self.numerics, self.versions)

    def conditions_of(self, cell: CellRequest) -> Conditions:
        """The conditions of one cell, which has its own plug-ins."""
        return self.conditions.model_copy(update={"plugins": cell.plugins})

    @model_validator(mode="after")
    def _names_each_cell_once(self) -> RunPlan:
        if len(set(self.cells)) < len(self.cells) or set(self.cells) != self.references.keys():
            raise ValueError("cells and references must name the same cells, each once")
        return self


Reads = Literal["network", "weak"]  # what a cell reads weights for: evaluation, and guidance's weak branch


class WeightsRef(Document):
    """Reference to weights of another cell; `run` is "" for the same run."""

    cell: str
    iteration: PositiveInt
    run: str = ""


class CellRequest(Document):
    """cell.json."""

    schema_version: PositiveInt = SCHEMA_VERSION
    cell: str
    suite: str
    row: str
    seed: NonNegativeInt
    reference: str
    backbone: str
    config: dict[str, JsonValue]
    sources: dict[Reads, WeightsRef] = Field(default_factory=dict)
    plugins: PluginCode = Field(default_factory=dict)  # that it uses

    @cached_property
    def configuration(self) -> Cell:
        """Return `config`, validated. Raises ValidationError."""
        return Cell.model_validate(self.config)

    @property
    def identity(self) -> Identity:
        """The identity that is stamped on the cell's files."""
        return Identity.of(self.cell, self.config)


class TimingRequest(Document):
    timing: Timing
    conditions: dict[str, JsonValue]


class RowTiming(Document):
    """timings/<row>.json: speed and memory of a row, shared by its seeds."""

    row_key: str = ""  # "": written by an older version
    asked: TimingRequest
    timing: TimingFigures
    conditions: Conditions


class MeasuredSpeed(Document):
    """The result of a process that timed steps."""

    timing: TimingFigures
    conditions: Conditions


class MeasuredMemory(Document):
    """The result of a process that measured memory."""

    peak_memory_mib: PositiveFloat | None
    memory_kind: MemoryKind | None
    conditions: Conditions


class OwnAttempts(Document):
    cell: str
    attempts: list[str]


class Attempts(RootModel[OwnAttempts | list[str]]):
    """attempts.json: how each interrupted attempt at a cell ended; a list, as older versions wrote it."""


class Export(Part):
    """A run in the form in which it is shared: what a report reads, without weights, images and logs, and with file
    names instead of paths.

    `unreadable` gives, for each such cell, the reason why its record could not be read. `version` is that of the
    program that wrote the export.
    """

    generator: Literal["tread-bench export"]  # first key of the file, which identifies it
    schema_version: Literal[1]
    version: str
    plan: RunPlan
    records: list[Record] = Field(min_length=1)
    unreadable: dict[str, str]

    @model_validator(mode="after")
    def _holds_cells_of_its_plan(self) -> Export:
        cells = [record.cell for record in self.records] + [*self.unreadable]
        if len(set(cells)) < len(cells) or not set(cells) <= self.plan.references.keys():
            raise ValueError("records and unreadable must be of cells that plan.cells names, each at most once")
        for record in self.records:
            if record.reference != self.plan.references[record.cell]:
                raise ValueError(f"the record of {record.cell}: reference must be that of plan.references")
        return self


def parsed(content: Any, model: type[Model]) -> Model | list[str]:
    """Validate `content` (the result of `json.loads`) as such a document; return it, or all mistakes with their fields.

    Types are strict: a text is not a number, true is not a count, and 1.5 is not an integer.
    """
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):  # NaN, infinity, half a surrogate pair, or endless nesting
        text = b""
    if not (text and _is_plain(text)) and (values := list(unfit_values(content))):
        return values
    try:
        document = model.model_validate_json(text or json.dumps(content), strict=True)
    except ValidationError as error:
        return _texts(error, model)
    return [*_config_problems_of(document)] or document


def parsed_at_once(text: bytes, model: type[Model]) -> Model | None:
    """Validate the JSON of a document in one pass, as `parsed` does; None where anything is wrong or odd in it."""
    if not _is_plain(text):
        return None
    try:
        document = model.model_validate_json(text, strict=True)
    except ValidationError:
        return None
    return None if _config_problems_of(document) else document


def _config_problems_of(document: BaseModel) -> Sequence[str]:
    """Mistakes in the configurations of a document."""
    match document:
        case Record():
            return _record_problems(document)
        case CellRequest():
            return _problems_of(document.config, tolerant=False)
        case Export():
            found = ((place, _record_problems(record)) for place, record in enumerate(document.records))
            return [f"records.{place}.{problem}" for place, problems in found for problem in problems]
    return []


def _record_problems(record: Record) -> Sequence[str]:
    """Mistakes in a record's configuration, which may be of another version, or of plug-ins not installed here."""
    return _problems_of(_NOT_ASKED | record.config, tolerant=True)


def _problems_of(config: dict[str, JsonValue], *, tolerant: bool) -> Sequence[str]:
    """Mistakes in a cell's configuration; if `tolerant`, keys and plug-ins that are unknown here are none."""
    return _problems_of_text(compact_json(config), tolerant)


@lru_cache(maxsize=4096)
def _problems_of_text(text: str, tolerant: bool) -> Sequence[str]:
    """All seeds of a row have the same configuration, and so have its request and its record."""
    config = json.loads(text)
    try:
        return _config_problems(config, Cell.model_validate(config))
    except ValidationError as error:
        unknown = (found["type"] == "extra_forbidden" or _names_what_is_unknown(found) for found in error.errors())
        return [] if tolerant and all(unknown) else _texts(error, Cell, ("config",))


def _names_what_is_unknown(found: ErrorDetails) -> bool:
    """Whether an error is the name of a plug-in that is not installed here."""
    part = found["input"]
    return found["type"] == "union_tag_invalid" and isinstance(part, dict) and isinstance(part["name"], str)


def _texts(error: ValidationError, model: type[BaseModel], above: tuple[str, ...] = ()) -> list[str]:
    return list(dict.fromkeys(problem.message.strip() for problem in validation_problems(error, model, above)))


def _config_problems(config: dict[str, JsonValue], cell: Cell) -> list[str]:
    """Why `config` is not a cell's configuration as this program writes it."""
    return [*_other_kinds(config, cell.model_dump(mode="json"), ("config",)), *_size_problems(cell)]


def _other_kinds(written: Any, full: Any, at: tuple[str | int, ...]) -> Iterator[str]:
    """Values in a short form of a suite instead of an object or list, and texts instead of numbers."""
    if at == ("config", "sampling", "guidance") and isinstance(written, str):  # as version 1 wrote it
        return
    if _kind(written) != _kind(full):
        yield f"{dotted(at)} {shortened(written)}: must be {_kind(full)}"
    elif isinstance(full, dict):
        for key in written.keys() & full.keys():
            yield from _other_kinds(written[key], full[key], (*at, key))
    elif isinstance(full, list):
        for place, (part, whole) in enumerate(zip(written, full, strict=False)):
            yield from _other_kinds(part, whole, (*at, place))


def _kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a number"
    return {bool: "true or false", dict: "an object", list: "a list", str: "a text"}.get(type(value), "null")


def _size_problems(cell: Cell) -> list[str]:
    try:
        cell.backbone.spec(cell.data)
    except ValidationError as error:
        return _texts(error, BaseModel, ("config", "backbone"))
    except ValueError:  # a backbone that is not installed here
        pass
    return []


def _is_plain(text: bytes) -> bool:
    """Whether JSON surely has no unfit value, as far as what stands outside its texts shows; half a surrogate pair,
    which stands inside one, is refused wherever JSON is read or encoded.
    """
    # What stands outside texts, with every digit as 0.
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = b"".join(text.split(b'"')[::2]).translate(_DIGITS_AS_0, _BLANK)

    # Numbers, then levels.
    if b"N" in outside or b"I" in outside or b"e000" in outside:  # NaN, Infinity, or an exponent of three digits
        return False
    if _LONG in outside and any(before + _LONG in outside for before in _BEFORE_NUMBERS):
        return False
    brackets = outside.translate(None, _NO_BRACKETS)
    for _ in range(DEEPEST // 2):  # each iteration removes one or two levels
        if not brackets:
            break
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return not brackets


def unfit_values(content: Any) -> Iterator[str]:
    """Yield what no document may hold: numbers that are not finite or too large, and texts that are not Unicode."""
    left: list[tuple[tuple[str | int, ...], Any]] = [((), content)]
    while left:
        at, value = left.pop()
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{_named(at)} {value}: must be a finite number"
        elif isinstance(value, int) and not -LARGEST <= value < LARGEST:
            yield f"{_named(at)}: an integer of more than 64 bits"
        elif isinstance(value, str) and not _is_unicode(value):
            yield f"{_named(at)} {shortened(value)}: half a surrogate pair is not a character"
        elif isinstance(value, dict | list) and len(at) >= DEEPEST:
            yield f"{_named(at[:3])}: nested deeper than {DEEPEST} levels"
        elif isinstance(value, dict):
            if bad := [key for key in value if not _is_unicode(key)]:
                yield f"{_named(at)} has the key {shortened(bad[0])}: half a surrogate pair is not a character"
            left += [((*at, key), part) for key, part in reversed(value.items())]
        elif isinstance(value, list):
            left += [((*at, place), part) for place, part in reversed(list(enumerate(value)))]


def _named(at: tuple[str | int, ...]) -> str:
    return printable(dotted(at)) or "the document"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
