"""The document of `tread-bench evaluate`: figures of a set of images, and everything that they depend on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, NonNegativeFloat, PositiveInt

from tread_bench.core.stored.records import Part

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
    statistics: list[str] = Field(default_factory=list)
    generated: dict[str, JsonValue] = Field(default_factory=dict)


class EvaluatedNetwork(Part):
    """A feature network, and what the figures on its features depend on besides the samples."""

    name: str
    sha256: str  # of its weights and settings
    dims: PositiveInt
    distance: str  # what the Fréchet distance of its features is called
    protocol: dict[str, JsonValue]


class FitPoint(Part):
    """The figure of a random subset of that many images."""

    images: PositiveInt
    value: float


class EvaluatedFigure(Part):
    """One figure of a metric on the features of one network.

    `fingerprint` is the hash of everything that it depends on besides the samples: those of two evaluations are
    comparable where theirs are the same. `low` and `high` are the ends of an interval, `method` says how it was made.
    `points` are what a figure was extrapolated from.
    """

    network: str
    network_sha256: str
    metric: str
    figure: str
    title: str
    lower_is_better: bool | None
    value: float
    low: float | None = None
    high: float | None = None
    method: str = ""
    points: list[FitPoint] = Field(default_factory=list)
    fingerprint: str
    warnings: list[str] = Field(default_factory=list)


class SetEvaluation(Part):
    """evaluation.json: a set of images against a reference, under one protocol.

    The device is not part of a fingerprint: its effect on the features is measured and stands beside it.
    """

    generator: Literal["tread-bench evaluate"] = EVALUATED  # first key of the file, which identifies it
    schema_version: Literal[2] = 2
    version: str  # of the program that made it
    samples: EvaluatedSet
    reference: EvaluatedSet
    protocol: str
    networks: list[EvaluatedNetwork]
    rows: list[EvaluatedFigure] = Field(min_length=1)
    warnings: list[str] = Field(default_factory=list)  # that concern all figures, and what was not measured
    device: str
    batch: PositiveInt | None  # images at a time; None: as many as pay on the device
    seconds: NonNegativeFloat
    versions: dict[str, str]

    @property
    def cautions(self) -> list[str]:
        """What a reader must know before comparing figures, each warning once."""
        of_rows = [warning for row in self.rows for warning in row.warnings]
        return [*dict.fromkeys([*self.warnings, *of_rows])]
