"""What a cell and a suite are made of: frozen, validated models. No torch, no files.

`Cell` is one fully resolved training; `Suite` is what a YAML file says once overrides are applied. `plan.py` turns the
second into many of the first; `suite_file.py` reads YAML and gives every mistake its place.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from tread_bench.registry import BackboneSpec, Family, find_family, make_spec
from tread_bench.routes import Route, format_routes, parse_routes

NAME = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
ROW_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:+@/-]{0,63}$"
MAX_SEEDS = 1000

EXTRACTORS = {
    "digits-classifier": "a small classifier of digits whose weights ship with the package",
    "trained-classifier": "the same kind of network from metrics.extractor_weights (`tread-bench features`)",
    "inception": "Inception v3 from metrics.inception_weights, as torch-fidelity has it",
}


class Model(BaseModel):
    """Frozen; an unknown key and a number that is not finite are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {str(value).lower()}")
    return value


Int = Annotated[int, BeforeValidator(_no_boolean)]
Float = Annotated[float, BeforeValidator(_no_boolean)]
Share = Annotated[float, Field(ge=0, lt=1), BeforeValidator(_no_boolean)]
Time = Annotated[float, Field(ge=0, le=1), BeforeValidator(_no_boolean)]


def _read_routes(value: object) -> object:
    if isinstance(value, str):
        return parse_routes(value)
    if isinstance(value, list | tuple):
        return tuple(route if isinstance(route, Route) else _one_route(route) for route in value)
    raise ValueError("must be a route such as 2:8@0.5, a list of routes, or [] for none")


def _one_route(value: object) -> Route:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a route: write START:END@RATE, such as 2:8@0.5")
    return Route.parse(value)


Routes = Annotated[
    tuple[Route, ...],
    BeforeValidator(_read_routes, json_schema_input_type=str | list[str]),
    PlainSerializer(format_routes, return_type=str),
]


class BackboneChoice(Model):
    """A published name, or a family with its own sizes (`depth`, `hidden`, `heads`, `patch`, ...)."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="published name (DiT-S/2) or family (DiT)")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @property
    def sizes(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @property
    def label(self) -> str:
        """As a person names it: DiT-S/2, or DiT (depth 12, hidden 64)."""
        sizes = ", ".join(f"{key} {value}" for key, value in self.sizes.items())
        return f"{self.name} ({sizes})" if sizes else self.name

    def family(self) -> Family:
        return find_family(self.name)[0]

    def spec(self, data: DataChoice) -> BackboneSpec:
        """The validated sizes for that data. Raises pydantic's ValidationError."""
        shape = {"image_size": data.image_size, "channels": data.channels, "num_classes": data.num_classes}
        return make_spec(self.name, **{**shape, **self.sizes})[1]


class DigitsData(Model):
    """scikit-learn's 1,797 scanned digits, 8x8, one channel, ten classes; the last fifth is held out."""

    name: Literal["digits"] = "digits"

    @property
    def image_size(self) -> int:
        return 8

    @property
    def channels(self) -> int:
        return 1

    @property
    def num_classes(self) -> int:
        return 10


class ParquetData(Model):
    """Images in local Parquet files of Hugging Face's image schema (a struct of `bytes` and `path`, and a label)."""

    name: Literal["parquet"]
    train: tuple[str, ...] = Field(min_length=1, description="Parquet files with the training images")
    held_out: tuple[str, ...] = Field(min_length=1, description="Parquet files with the held-out images")
    image_size: Int = Field(ge=1, description="side of the images in pixels; images of another size are an error")
    channels: Literal[1, 3] = 3
    num_classes: Int = Field(ge=0)
    image_column: str = "image"
    label_column: str = "label"
    horizontal_flip: bool = Field(False, description="mirror half of the training images, drawn by sample index")


DataChoice = Annotated[DigitsData | ParquetData, Field(discriminator="name")]


class DenseMethod(Model):
    """Every token passes every block."""

    name: Literal["dense"] = "dense"


class TreadMethod(Model):
    """Routed tokens bypass the blocks of their route and come back with their value (TREAD)."""

    name: Literal["tread"] = "tread"


MethodChoice = Annotated[DenseMethod | TreadMethod, Field(discriminator="name")]


class FlowObjective(Model):
    """Flow matching on the linear path with velocity prediction: x_t = (1-t) x + t noise, v = noise - x."""

    name: Literal["flow"] = "flow"
    times: Literal["logit_normal", "uniform"] = Field("logit_normal", description="distribution of training times t")


class Training(Model):
    """Optimisation of one cell."""

    iterations: Int = Field(ge=1, description="optimiser steps")
    batch: Int = Field(64, ge=1, description="images per step, over all processes")
    learning_rate: Float = Field(1e-4, gt=0)
    betas: tuple[Share, Share] = (0.9, 0.999)
    weight_decay: Float = Field(0.0, ge=0)
    ema_decay: Float = Field(0.9999, ge=0, lt=1, description="upper bound; warmed up as (1 + step) / (10 + step)")
    label_dropout: Float = Field(0.1, ge=0, le=1, description="share of samples trained without their label")
    gradient_clip: Float | None = Field(None, gt=0, description="largest gradient norm; empty: no clipping")
    warmup: Int = Field(0, ge=0, description="steps over which the learning rate rises linearly")
    checkpoint_every: Int = Field(
        500, ge=1, description="steps between checkpoints that a broken-off cell goes on from"
    )


class Sampling(Model):
    """How images are generated for the metrics."""

    sampler: Literal["euler"] = "euler"
    steps: Int = Field(50, ge=1)
    guidance: Literal["none", "cfg"] = "none"
    guidance_scale: Float = Field(1.0, ge=0, description="1 is no guidance and makes one call per step")

    @model_validator(mode="after")
    def _scale_needs_guidance(self) -> Sampling:
        if self.guidance == "none" and self.guidance_scale != 1:
            raise ValueError(
                f"guidance_scale {self.guidance_scale:g} has no effect with guidance none; set guidance: cfg"
            )
        return self


class Metrics(Model):
    """What is measured of a cell, and when."""

    at: tuple[Int, ...] | None = Field(
        None, min_length=1, description="iterations at which to evaluate, ascending; empty: the last one"
    )
    num_samples: Int = Field(
        512, ge=10, description="generated images per evaluation; the Inception score has ten parts"
    )
    batch: Int = Field(256, ge=1, description="images generated and scored at a time; changes no figure")
    ema: bool = Field(True, description="judge the averaged weights")
    validation_samples: Int = Field(256, ge=1, description="held-out images in the dense validation loss")
    kid_subset_size: Int = Field(100, ge=2)
    kid_subsets: Int = Field(50, ge=1)
    neighbours: Int = Field(3, ge=1, description="k of precision and recall")
    similarity_samples: Int = Field(64, ge=1, description="held-out images in the layer cosine similarity")
    similarity_times: tuple[Time, ...] = Field(
        (0.1, 0.3, 0.5, 0.7, 0.9), min_length=1, description="times t of the same"
    )
    extractor: str | None = Field(None, description="feature network; empty: the one that suits the data")
    extractor_weights: str | None = Field(None, description="safetensors file from `tread-bench features`")
    inception_weights: str | None = Field(None, description="torch-fidelity's Inception weights, a local file")


class Cell(Model):
    """One training, fully resolved: the same on every machine."""

    backbone: BackboneChoice
    data: DataChoice = DigitsData()
    method: MethodChoice = DenseMethod()
    routes: Routes = ()
    selector: str = Field("random", description="which tokens bypass")
    objective: FlowObjective = FlowObjective()
    training: Training
    sampling: Sampling = Sampling()
    metrics: Metrics = Metrics()

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        short = ("data", "method", "objective")
        return {k: {"name": v} if k in short and isinstance(v, str) else v for k, v in value.items()}


class Kernels(Model):
    """Formulations of the costly operations; `auto` is resolved once per run and written to plan.json."""

    scan: str = "auto"
    wkv: str = "auto"
    attention: str = "auto"


class Compute(Model):
    """Numerical choices of a whole run: the same for every cell, on every worker and on resume."""

    matmul_precision: Literal["auto", "highest", "high", "medium"] = "auto"
    autocast: Literal["none", "bfloat16"] = "none"
    threads: Int = Field(1, ge=1, description="threads of one cell; never derived from the number of workers")
    kernels: Kernels = Kernels()


def _none_or_some(pairs: int) -> int:
    if pairs == 1:
        raise ValueError("1 pair has no interval; time 2 or more, or 0 for no measurement")
    return pairs


class Timing(Model):
    """How speed is measured: alone, after training, interleaved with the dense reference."""

    pairs: Annotated[Int, AfterValidator(_none_or_some)] = Field(
        20, ge=0, description="pairs of timed steps, 2 or more; 0: speed and memory are not measured"
    )
    warmup: Int = Field(3, ge=1, description="steps of each that are not counted")


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


Seed = Annotated[int, Field(ge=0, lt=2**31), BeforeValidator(_no_boolean)]
Seeds = Annotated[
    tuple[Seed, ...],
    Field(min_length=1, max_length=MAX_SEEDS),
    BeforeValidator(_read_seeds, json_schema_input_type=int | list[int]),
    AfterValidator(_all_differ),
]
RowName = Annotated[str, Field(pattern=ROW_NAME)]


class Suite(Model):
    """A study: a base, a matrix over it, named rows, and seeds. Its cells are matrix x rows x seeds.

    Keys of a cell are nested or dotted (`training.iterations`). A later layer extends an earlier one, in the order
    base, matrix, row, overrides.
    """

    name: str = Field(pattern=NAME, description="file-safe name; the run folder is called after it")
    description: str = ""
    seeds: Seeds = Field((0,), description="a list, or a number n for 0 .. n-1")
    base: dict[str, Any] = Field(description="keys of a cell shared by all")
    matrix: dict[str, Any] = Field(default_factory=dict, description="dotted key -> values; also include and exclude")
    rows: dict[RowName, dict[str, Any] | None] = Field(default_factory=dict, description="row name -> keys of a cell")
    overrides: dict[str, Any] = Field(
        default_factory=dict, description="keys of a cell applied last; --set writes here"
    )
    compute: Compute = Compute()
    timing: Timing = Timing()
