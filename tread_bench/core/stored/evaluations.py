"""The document of `tread-bench evaluate`: figures of a set of images, and everything that they depend on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field, JsonValue, NonNegativeFloat, PositiveInt, model_validator

from tread_bench.core.stored.records import Part

if TYPE_CHECKING:
    import pandas as pd

EVALUATED: Literal["tread-bench evaluate"] = "tread-bench evaluate"
Shape = tuple[PositiveInt, PositiveInt, PositiveInt]  # (C, H, W)


class EvaluatedSet(Part):
    """A set of images: the samples, or the reference that they are compared with.

    `shape` and `count` are None where a reference is statistics alone. `statistics` names the networks whose statistics
    came with the set, instead of being computed from its images. `generated` says how samples of a run were made.
    """

    name: str
    sha256: str  # of the content of its files
    count: PositiveInt | None
    shape: Shape | None
    has_labels: bool = False
    labels_sha256: str = ""  # "": there are none
    statistics: list[str] = Field(default_factory=list)
    generated: dict[str, JsonValue] = Field(default_factory=dict)


class EvaluatedNetwork(Part):
    """A feature network, and what the figures on its features depend on besides the samples."""

    name: str
    sha256: str  # of its weights and settings
    dims: PositiveInt
    distance: str  # what the Fréchet distance of its features is called
    protocol: dict[str, JsonValue]
    device_effect: NonNegativeFloat  # largest relative difference of features from those of the CPU; 0 on the CPU


class FitPoint(Part):
    """The figure of a random subset of that many images."""

    images: PositiveInt
    value: float


class EvaluatedFigure(Part):
    """One figure of a metric on the features of one network, "" for one that reads images alone; `refused` says why it
    was not measured.

    `fingerprint` is the hash of everything that it depends on besides the samples: those of two evaluations are
    comparable where theirs are the same. `low` and `high` are the ends of an interval, `method` says how it was made.
    `points` are what a figure was extrapolated from, `parts` its values of each class.
    """

    metric: str
    figure: str
    title: str
    network: str
    network_sha256: str = ""  # "": refused
    lower_is_better: bool | None
    value: float | None
    fingerprint: str = ""
    low: float | None = None
    high: float | None = None
    method: str = ""
    points: list[FitPoint] = Field(default_factory=list)
    refused: str = ""
    warnings: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_a_value_or_a_reason(self) -> EvaluatedFigure:
        if (self.value is None) != bool(self.refused):
            raise ValueError("a figure has either a value or the reason why it was refused")
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high must both be there, or neither")
        return self


_IN_FRAME = (
    *("network", "metric", "figure", "title", "value", "low", "high", "method"),
    *("fingerprint", "refused"),
)  # in that order


class SetEvaluation(Part):
    """evaluation.json: a set of images against a reference, under one protocol.

    The device is not part of a fingerprint: its effect on the features is measured and stands beside it.
    """

    generator: Literal["tread-bench evaluate"] = EVALUATED  # first key of the file, which identifies it
    schema_version: Literal[1] = 1
    version: str  # of the program that made it
    samples: EvaluatedSet
    reference: EvaluatedSet
    protocol: str
    networks: list[EvaluatedNetwork]
    images_protocol: dict[str, JsonValue] = Field(default_factory=dict)  # of figures that read images alone
    rows: list[EvaluatedFigure] = Field(min_length=1)
    warnings: list[str] = Field(default_factory=list)  # that concern all figures
    device: str
    batch: PositiveInt | None  # images at a time; None: as many as pay on the device
    seconds: NonNegativeFloat
    versions: dict[str, str]

    @model_validator(mode="after")
    def _measures_each_figure_once(self) -> SetEvaluation:
        measured = [(row.network, row.figure) for row in self.rows]
        if len(set(measured)) < len(measured):
            raise ValueError("rows must have each figure of a network once")
        known = {"", *(network.name for network in self.networks)}
        if any(row.network not in known for row in self.rows if not row.refused):
            raise ValueError("rows with a value must be of a network that networks names")
        return self

    @property
    def measured(self) -> list[EvaluatedFigure]:
        """The rows that have a value."""
        return [row for row in self.rows if not row.refused]

    @property
    def refused(self) -> list[EvaluatedFigure]:
        """The rows that have the reason why there is no value."""
        return [row for row in self.rows if row.refused]

    def frame(self) -> pd.DataFrame:
        """Return one row per figure and network, refused ones with their reason and NaN.

        Columns: samples, reference, protocol, network, metric, figure, title, value, low, high, method, fingerprint,
        refused, warnings. What a figure was extrapolated from, and its parts, are in `rows`.
        """
        import pandas as pd

        about = {"samples": self.samples.name, "reference": self.reference.name, "protocol": self.protocol}
        lines = []
        for row in self.rows:
            figures = {name: getattr(row, name) for name in _IN_FRAME}
            lines.append({**about, **figures, "warnings": "; ".join(row.warnings)})
        return pd.DataFrame(lines).astype({"value": "float64", "low": "float64", "high": "float64"})


class Refusal(NamedTuple):
    """Why figures of a network were not measured."""

    figures: str  # their titles
    network: str
    reason: str

    def __str__(self) -> str:
        where = f" ({self.network})" if self.network else ""
        return f"{self.figures}{where}: {self.reason}"


def by_reason(rows: Iterable[EvaluatedFigure]) -> list[Refusal]:
    """Return each reason for which figures of a network were refused, once."""
    titles: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        titles.setdefault((row.network, row.refused), {})[row.title] = None
    return [Refusal(", ".join(of), network, reason) for (network, reason), of in titles.items()]
