"""The record of a cell: one JSON document, its schema, and the source of its row in results.csv."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from tread_bench.core.config.base import SEEDS_PER_GROUP, is_unused
from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import Best, best_of
from tread_bench.core.stored.conditions import Conditions

SCHEMA_VERSION: Literal[2] = 2  # format version of record.json, plan.json and cell.json
Share = Annotated[float, Field(ge=0, le=1)]
MemoryKind = Literal["allocator", "resident set"]
Role = Literal["study", "tuning"]
_DIVERGED = ("DivergedError: ", "FloatingPointError: ")  # how the reason of a cell begins whose training diverged


class Part(BaseModel):
    """A frozen model that leaves out unknown keys, such as those of an older version, and refuses NaN."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class CostFigures(Part):
    """Parameters and MACs of one image; `tokens_per_block` and `dense_tokens` include prefix tokens.

    Training step costs are those of the routes as configured, and `mean_train_step_macs` is the mean over the schedule.
    `params` counts the network that is evaluated and what the method adds, `auxiliary_params` what auxiliary losses
    add.
    """

    params: NonNegativeInt
    trainable_params: NonNegativeInt
    tokens_per_block: list[NonNegativeInt] = Field(min_length=1)
    dense_tokens: PositiveInt
    prefix_tokens: NonNegativeInt = Field(0, exclude_if=is_unused)
    forward_macs: PositiveInt
    dense_forward_macs: PositiveInt
    attention_macs: NonNegativeInt
    scan_macs: NonNegativeInt
    train_step_macs: PositiveInt  # forward and backward of one image
    block_macs: list[NonNegativeInt]
    method_params: NonNegativeInt = 0  # part of `params` that the backbone does not have
    auxiliary_params: NonNegativeInt = 0
    frozen_params: NonNegativeInt = Field(0, exclude_if=is_unused)  # part of `params` beside adapters that are trained
    mean_train_step_macs: PositiveInt | None = None  # None: equal to train_step_macs
    evaluated_forward_macs: PositiveInt | None = None  # of one call in sampling; None: equal to dense_forward_macs

    @property
    def image_tokens(self) -> int:
        return self.dense_tokens - self.prefix_tokens

    @property
    def stored_params(self) -> int:
        """Number of parameters in a checkpoint, each stored with its average and moments."""
        return self.params + self.auxiliary_params - self.frozen_params

    @property
    def ideal_speedup(self) -> float:
        """Dense over routed forward MACs: the speed-up of a routed step without overhead."""
        return self.dense_forward_macs / self.forward_macs


class GpuConditions(Part):
    """State of a GPU at one moment, according to NVML; None: the device does not report it."""

    sm_clock_mhz: int | None = None
    throttle_reasons: list[str] | None = None  # what limits the clocks; names of measure/speed/gpu_conditions.py
    other_processes: int | None = None  # processes with a compute context on this GPU


class TimingFigures(Part):
    """Training steps timed alone, with batches ready, interleaved with the dense reference on the same machine."""

    step_time_ms: PositiveFloat  # median
    step_time_low_ms: PositiveFloat  # 95 % bootstrap interval of the median
    step_time_high_ms: PositiveFloat
    images_per_s: PositiveFloat
    speedup: PositiveFloat  # median of dense / row over the pairs; the dense row against itself is the control
    speedup_low: PositiveFloat
    speedup_high: PositiveFloat
    step_times_ms: list[PositiveFloat] = Field(min_length=1)  # all measurements, in order
    reference_step_times_ms: list[PositiveFloat]
    loop_time_ms: PositiveFloat | None = None  # mean time of a step in the training loop, alone; None: not measured
    data_wait_share: Share | None = None  # share of loop_time_ms in which the device waited for a batch
    batch: PositiveInt
    warmup: NonNegativeInt
    compiled_instead: str = Field("", exclude_if=is_unused)  # of what `compute.compile` requests, and why
    probe_ms: PositiveFloat | None = None  # fixed work, timed in the same process just before
    product_macs_per_s: PositiveFloat | None = None  # of a large matrix product in the type of a step, timed there too
    gpu_before: GpuConditions | None = None  # after the warm-up; None: a CPU, or NVML cannot be read
    gpu_after: GpuConditions | None = None
    peak_memory_mib: PositiveFloat | None = None
    memory_kind: MemoryKind | None = None
    host_share: Share | None = None  # of a step under a profiler; None: not measured
    # The dense network that it was timed in turn with and its forward MACs; empty: its own backbone, without routes.
    reference_backbone: str = Field("", exclude_if=is_unused)
    reference_forward_macs: PositiveInt | None = Field(None, exclude_if=is_unused)

    @model_validator(mode="after")
    def _are_pairs(self) -> TimingFigures:
        if len(self.step_times_ms) != len(self.reference_step_times_ms):
            raise ValueError("step times come in pairs")
        return self


class Evaluation(Part):
    """Figures of a cell at one iteration, dense unless the study is about routed sampling."""

    iteration: NonNegativeInt
    train_seconds: NonNegativeFloat  # time spent in training steps so far
    training_macs: NonNegativeFloat | None = None  # up to here, over all images; None: another row trained it
    seconds: PositiveFloat | None = None  # of this evaluation, beside whatever else ran; None: not measured
    validation_loss: float
    validation_loss_per_time: dict[str, float]
    fid: float | None = None
    sfid: NonNegativeFloat | None = None
    kid: float | None = None
    inception_score: NonNegativeFloat | None = None
    precision: Share | None = None
    recall: Share | None = None
    figures: dict[str, float] = Field(default_factory=dict)  # of metrics that the suite added
    num_samples: NonNegativeInt | None = None
    protocol: str | None = None  # fingerprint; rows whose fingerprints differ are never ranked together
    protocol_details: dict[str, Any] = Field(default_factory=dict)
    samples: str | None = None  # path of the sample grid, relative to the cell's folder
    samples_sha256: str = ""  # hash of that file; "": there is none
    captions: list[str] = Field(default_factory=list)  # that its images were generated for, in order; empty: none
    real_samples: str | None = None  # the same of training images, decoded where they are latents
    real_samples_sha256: str = ""

    def figure(self, name: str) -> float | None:
        """Return a figure of a metric, or the validation loss; None: not measured."""
        value: float | None = getattr(self, name) if name in Evaluation.model_fields else self.figures.get(name)
        return value


class EqualTime(Part):
    """Where a row's training has taken as long as that of the row that its budget names, by steps timed before it.

    `low` and `high` are the same at both ends of the 95 % interval of its speed-up, not rounded; None: its steps were
    not timed in pairs with those of the other row.
    """

    iteration: PositiveInt
    low: PositiveFloat | None = None
    high: PositiveFloat | None = None


class Candidate(Part):
    """A learning rate at which a row was trained once per tuning seed, and what its trainings have left so far."""

    learning_rate: PositiveFloat
    cells: list[str] = Field(min_length=1)
    validation_losses: list[float] = Field(default_factory=list)  # at the ends of those that are done
    fids: list[float] = Field(default_factory=list)  # the same, where images are generated
    diverged: NonNegativeInt = 0  # how many of them
    failed: NonNegativeInt = 0  # for another reason

    @property
    def is_over(self) -> bool:
        """Whether every training has ended."""
        return len(self.validation_losses) + self.diverged + self.failed == len(self.cells)

    @property
    def loss(self) -> float | None:
        """Dense validation loss, averaged over the tuning seeds; infinite if one diverged, None if one has none."""
        if self.diverged:
            return math.inf
        if len(self.validation_losses) < len(self.cells):
            return None
        return fmean(self.validation_losses)


class Tuning(Part):
    """The learning rates among which a row's was chosen, ascending, by the dense validation loss of each."""

    candidates: list[Candidate] = Field(min_length=1)
    seeds: list[NonNegativeInt] = Field(min_length=1)
    share: Share  # of the row's iterations, that each candidate was trained for
    shortest: str = Field("", exclude_if=is_unused)  # the row of whose iterations that is a share; "": this one
    check: list[Candidate] = Field(default_factory=list, exclude_if=is_unused)  # the same at the row's own length

    @property
    def is_over(self) -> bool:
        """Whether every training has ended."""
        return all(candidate.is_over for candidate in (*self.candidates, *self.check))

    @property
    def has_moved(self) -> bool | None:
        """Whether another candidate is the best at the row's own length; None: that was not checked, or not yet."""
        there = self.best_there
        return None if there is None or self.best is None else there.value != self.best.value

    @property
    def best_there(self) -> Best | None:
        """The best candidate at the row's own length; None: that was not checked, or not yet."""
        losses = {candidate.learning_rate: candidate.loss for candidate in self.check}
        return best_of(losses) if self.is_over else None

    @property
    def best(self) -> Best | None:
        """The best candidate, once all have ended; None: not yet, or none could be trained on every seed."""
        losses = {candidate.learning_rate: candidate.loss for candidate in self.candidates}
        return best_of(losses) if self.is_over else None


class Similarity(Part):
    """Mean cosine similarity of block outputs over tokens and samples, computed without routing.

    `matrix` (L x L) compares the outputs of two blocks at one time and is averaged over the T `times`; `across_times`
    (L x T x T) compares the outputs of one block at two times, which matters for caching a layer between steps.
    """

    matrix: list[list[float]]
    across_times: list[list[list[float]]]
    times: list[float]
    num_samples: PositiveInt


class RoutedFigures(Part):
    """The trained network run routed at one rate."""

    rate: Share
    validation_loss: float
    validation_loss_per_time: dict[str, float]


class RoutedGap(Part):
    """The gap between training and inference: one network run at several rates, on held-out images."""

    blocks: str  # START:END, ...
    selector: str
    rates: list[RoutedFigures] = Field(min_length=1)
    num_samples: PositiveInt


class GradientNorms(Part):
    """Norm of the loss gradient over each block's parameters, averaged over further batches after the last step.

    `training` is the cell's own loss (routed, if it routes), `dense` that of the same weights without routes.
    """

    training: list[NonNegativeFloat]
    dense: list[NonNegativeFloat]
    batches: PositiveInt


class DataFile(Part):
    """What distinguishes a file from others of the same name; see data_files.py."""

    bytes: int
    sha256: str = ""  # hash of the content; "": not known, of an older run, which cannot be resumed


def seed_group(cell: Any) -> int:
    """Return by how many groups the seed of a record or request is shifted: 0, but for a row that repeats another."""
    return int(cell.config.get("seed_group") or 0)


def paired_seed(cell: Any) -> int:
    """Return the seed of the suite that a record or request has, whatever its seed group: rows are paired by it."""
    return int(cell.seed) - SEEDS_PER_GROUP * seed_group(cell)


class Trained(Part):
    """What training has produced so far: a part of a record, and of the state in a checkpoint."""

    evaluations: list[Evaluation] = Field(default_factory=list)
    at_equal_time: Evaluation | None = None  # there, which may lie beyond the cell's own length
    train_loss: list[tuple[int, float]] = Field(default_factory=list)  # (iteration, mean since the previous entry)
    train_seconds: NonNegativeFloat | None = None
    data_wait_seconds: NonNegativeFloat | None = None  # seconds in which the device waited for a batch
    compile_seconds: NonNegativeFloat = Field(0.0, exclude_if=is_unused)  # before the steps: not part of train_seconds
    compiled_instead: str = Field("", exclude_if=is_unused)  # of what `compute.compile` requests, and why
    weights: dict[str, str] = Field(default_factory=dict)  # iteration -> SHA-256 of weights/<iteration>.safetensors
    data_files: dict[str, DataFile] = Field(default_factory=dict)  # files that the cell has read, by path


class Record(Trained):
    """One cell: what was requested, the results, and the conditions.

    It is written after training, and again with the speed and memory of its row.
    """

    schema_version: Literal[2] = SCHEMA_VERSION
    cell: str
    suite: str
    row: str
    seed: NonNegativeInt
    role: Role = "study"  # "tuning": it only helps to choose a learning rate
    status: Literal["done", "failed", "skipped"]
    reason: str = ""
    reason_in_training: str = Field("", exclude_if=is_unused)  # `reason` before the timing of its steps failed
    config: dict[str, Any]  # the resolved cell
    backbone: str  # readable name: DiT-S/2, or DiT (depth 12, hidden 64, heads 4, patch 2)
    family: str
    method: str
    routes: str = ""  # resolved block numbers, "2:8@0.5"
    selector: str = ""
    num_blocks: PositiveInt | None = None
    reference: str = ""  # dense cell of the same seed and architecture, for comparison
    cost: CostFigures | None = None
    timing: TimingFigures | None = None
    tuning: Tuning | None = None  # how its learning rate was chosen; None: it was given
    equal_time: EqualTime | None = None  # None: not planned
    similarity: Similarity | None = None
    gradient_norms: GradientNorms | None = None
    gap: RoutedGap | None = None
    target_features_sha256: str = ""  # hash of the network that REPA aligns tokens with
    skipped_steps: NonNegativeInt = 0  # steps whose float16 gradients overflowed, so that the weights stayed the same
    initial_weights_sha256: str = ""
    final_weights_sha256: str = ""
    sampling_macs: PositiveInt | None = None  # per generated image: all calls, both guidance branches
    conditions: Conditions = Field(default_factory=Conditions)

    @field_validator("routes")
    @classmethod
    def _routes_are_readable(cls, value: str) -> str:
        parse_routes(value)
        return value

    @property
    def ideal_speedup(self) -> float | None:
        """Forward MACs of the dense network that it was timed in turn with, over its own; None: not counted."""
        if self.cost is None:
            return None
        timed_with = self.timing.reference_forward_macs if self.timing else None
        return (timed_with or self.cost.dense_forward_macs) / self.cost.forward_macs

    @property
    def is_trained(self) -> bool:
        """Whether its training ended well, though its steps may not have been timed."""
        return self.status == "done" or (self.status == "failed" and self.cost is not None)

    @property
    def lacks_speed(self) -> bool:
        """Whether it is trained, and waits for speed and memory of its steps, if its run measures them."""
        is_timed = self.role == "study" and self.config.get("evaluate") is None
        return is_timed and self.status == "done" and self.timing is None

    @property
    def has_diverged(self) -> bool:
        """Whether it failed because its training diverged, as it would again."""
        return self.status == "failed" and self.reason.startswith(_DIVERGED)

    @property
    def rate(self) -> str:
        """Bypass rates in route order, as in results.csv."""
        return ",".join(route.rpartition("@")[2] for route in self.routes.split(",") if route)

    @property
    def last(self) -> Evaluation | None:
        """The evaluation at the highest iteration."""
        return max(self.evaluations, key=lambda e: e.iteration, default=None)


def of_study(records: Iterable[Record]) -> list[Record]:
    """Return the records that are compared: without those that only helped to choose learning rates."""
    return [record for record in records if record.role == "study"]
