"""What is remembered of a cell: one JSON document, its schema, and the rows of results.csv that follow from it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tread_bench.routes import parse_routes

SCHEMA_VERSION: Literal[2] = 2  # of record.json, plan.json and cell.json; migrations.py reads the older ones
MemoryKind = Literal["allocator", "resident set"]


class Part(BaseModel):
    """Frozen; an unknown key is an error, so that a record of another version is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CostFigures(Part):
    """Parameters and MACs of one image; `tokens_per_block` counts prefix tokens.

    Those of a training step are under the routes as configured, `mean_train_step_macs` over the schedule. `params`
    holds what the network is judged with or a method adds, `auxiliary_params` what auxiliary losses add.
    """

    params: int
    trainable_params: int
    tokens_per_block: list[int]
    dense_tokens: int
    forward_macs: int
    dense_forward_macs: int
    attention_macs: int
    scan_macs: int
    train_step_macs: int  # forward and backward of one image
    block_macs: list[int]
    method_params: int = 0  # those of `params` that the backbone does not have
    auxiliary_params: int = 0
    mean_train_step_macs: int | None = None  # None: as train_step_macs
    judged_forward_macs: int | None = None  # of one call when sampling; None: as dense_forward_macs

    @property
    def stored_params(self) -> int:
        """Parameters that a checkpoint holds, each with its average and moments."""
        return self.params + self.auxiliary_params

    @property
    def ideal_speedup(self) -> float:
        """Dense over routed forward MACs: what a routed step without overhead would gain."""
        return self.dense_forward_macs / self.forward_macs


class GpuConditions(Part):
    """What NVML says of a GPU at one moment; None: the device does not tell."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    throttle_reasons: list[str] | None = None  # why clocks are not higher; names of measure/gpu_conditions.py
    power_limit_w: float | None = None  # enforced
    other_processes: int | None = None  # that hold a compute context on it


class TimingFigures(Part):
    """Training steps timed alone, their batches ready, interleaved with the dense reference on the same machine."""

    step_time_ms: float  # median
    step_time_low_ms: float  # 95 % bootstrap interval of the median
    step_time_high_ms: float
    images_per_s: float
    speedup: float  # median of the pairs' dense / routed; the dense row against itself is the control
    speedup_low: float
    speedup_high: float
    step_times_ms: list[float]  # every sample, in order
    reference_step_times_ms: list[float]
    loop_time_ms: float | None = None  # mean time of a step in the training loop, alone; None: not measured
    data_wait_share: float | None = None  # of it, in which the device waited for a batch
    batch: int
    warmup: int
    probe_ms: float | None = None  # fixed work (measure/probe.py), timed in the same process just before
    gpu_before: GpuConditions | None = None  # after the warm-up; None: a CPU, or NVML cannot be read
    gpu_after: GpuConditions | None = None
    peak_memory_mib: float | None = None
    memory_kind: MemoryKind | None = None


class Evaluation(Part):
    """Figures of a cell at one iteration, dense unless the study is about routed sampling."""

    iteration: int
    train_seconds: float  # spent in training steps up to here
    validation_loss: float
    validation_loss_per_time: dict[str, float]
    fid: float | None = None
    sfid: float | None = None
    kid: float | None = None
    inception_score: float | None = None
    precision: float | None = None
    recall: float | None = None
    num_samples: int | None = None
    protocol: str | None = None  # fingerprint; rows whose fingerprints differ are never ranked together
    protocol_details: dict[str, Any] = Field(default_factory=dict)
    samples: str | None = None  # path of the grid of samples, relative to the cell's folder
    samples_sha256: str = ""  # of that file; "": written by an older version


class Similarity(Part):
    """Mean cosine similarity of block outputs over tokens and samples, run without routing.

    `matrix` (L x L) compares the outputs of two blocks at one time and is averaged over the T `times`; `across_times`
    (L x T x T) compares the outputs of one block at two times, which is what caching a layer between steps relies on.
    """

    matrix: list[list[float]]
    across_times: list[list[list[float]]]
    times: list[float]
    num_samples: int


class RoutedFigures(Part):
    """The trained network run routed at one rate, beside itself run dense on the same inputs."""

    rate: float
    validation_loss: float
    validation_loss_per_time: dict[str, float]
    cosine: list[float]  # of each block's routed to its dense output, mean over the tokens present, images and times


class RoutedGap(Part):
    """What separates training from inference: one network at several rates, on held-out images."""

    blocks: str  # START:END, ...
    selector: str
    rates: list[RoutedFigures]
    times: list[float]  # of the cosines
    num_samples: int  # of the losses
    cosine_samples: int


class GradientNorms(Part):
    """Norm of the loss gradient over each block's parameters, mean over the next training batches after the last step.

    `training` is the cell's own loss (routed, where it routes), `dense` that of the same weights without routes.
    """

    training: list[float]
    dense: list[float]
    batches: int


class DataFile(Part):
    """What tells a file from one of the same name: see data_files.py."""

    bytes: int
    ends_sha256: str  # of its first and last bytes, where formats keep their headers
    sha256: str = ""  # of its content; "": not known


class Record(Part):
    """One cell: what was asked, what came out, and under which conditions."""

    schema_version: Literal[2] = SCHEMA_VERSION
    cell: str
    suite: str
    row: str
    seed: int
    status: Literal["done", "failed", "skipped"]
    reason: str = ""
    attempts: list[str] = Field(default_factory=list)  # how each ended, in order; empty where it was not kept
    config: dict[str, Any]  # the resolved cell
    backbone: str  # as a person names it: DiT-S/2, or DiT (depth 12, hidden 64, heads 4, patch 2)
    family: str
    method: str
    routes: str = ""  # resolved block numbers, "2:8@0.5"
    selector: str = ""
    num_blocks: int | None = None
    reference: str = ""  # the dense cell of the same seed and architecture that this one is compared with
    cost: CostFigures | None = None
    timing: TimingFigures | None = None
    evaluations: list[Evaluation] = Field(default_factory=list)
    similarity: Similarity | None = None
    gradient_norms: GradientNorms | None = None
    gap: RoutedGap | None = None
    train_loss: list[tuple[int, float]] = Field(default_factory=list)  # (iteration, mean since the last entry)
    train_seconds: float | None = None
    data_wait_seconds: float | None = None  # those of them in which the device waited for a batch
    target_features_sha256: str = ""  # of the network that REPA aligns tokens with
    skipped_steps: int = 0  # whose float16 gradients overflowed: they left the weights as they were
    initial_weights_sha256: str = ""
    final_weights_sha256: str = ""
    sampling_macs: int | None = None  # of one generated image: all calls of the sampler, both branches of guidance
    weights: dict[str, str] = Field(default_factory=dict)  # iteration -> SHA-256 of weights/<iteration>.safetensors
    data_files: dict[str, DataFile] = Field(default_factory=dict)  # that it was made from, by path
    conditions: dict[str, Any] = Field(default_factory=dict)  # conditions.py: device, threads, precision, versions

    @field_validator("routes")
    @classmethod
    def _routes_are_readable(cls, value: str) -> str:
        parse_routes(value)
        return value

    @property
    def rate(self) -> str:
        """Bypass rates in route order, as results.csv writes them."""
        return ",".join(route.rpartition("@")[2] for route in self.routes.split(",") if route)

    @property
    def last(self) -> Evaluation | None:
        """The evaluation at the highest iteration."""
        return max(self.evaluations, key=lambda e: e.iteration, default=None)
