"""What is measured in a cell, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from tread_bench.core.config.base import Float, Int, Model, Share, one_of
from tread_bench.core.guidance import Blocks
from tread_bench.core.metrics import MetricFamily, MetricOptions, find_metric, metrics

# Metrics of every cell that generates images, in the order of their columns; their options by keys among `metrics`.
_STANDARD: Mapping[str, Mapping[str, str]] = {
    "fid": {},
    "kid": {"subset_size": "kid_subset_size", "subsets": "kid_subsets"},
    "inception_score": {},
    "precision_recall": {"neighbours": "neighbours"},
}


def standard_metrics() -> list[MetricFamily]:
    """Return the metrics of every cell that generates images, in the order of their columns."""
    return [find_metric(name) for name in _STANDARD]


def keys_of(metric: MetricOptions) -> list[str]:
    """Return the keys of a suite's `metrics` that hold the settings of a metric; empty if it has none."""
    standard = _STANDARD.get(metric.name)
    return ["also"] if standard is None else list(standard.values())


def settings_in_words(metric: MetricOptions) -> str:
    """Return where a suite sets a metric, in brackets; empty if there is nothing to set."""
    keys = ", ".join(f"metrics.{key}" for key in keys_of(metric))
    return f" (as set by {keys})" if keys else ""


def _short_forms(value: object) -> object:
    if isinstance(value, str | dict):
        value = (value,)
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list of metrics such as [coverage], or [] for none")
    return tuple({"name": one} if isinstance(one, str) else one for one in value)


if TYPE_CHECKING:
    Further = tuple[MetricOptions, ...]
else:
    _METRIC = one_of(metric.options for metric in metrics().values())
    _NAME = Literal[tuple(metrics())]
    _READ = BeforeValidator(_short_forms, json_schema_input_type=_NAME | list[_NAME | _METRIC])
    Further = Annotated[tuple[_METRIC, ...], _READ]

EXTRACTORS = {
    "digits-classifier": "a small classifier of digits whose weights ship with the package",
    "trained-classifier": "the same kind of network from metrics.extractor_weights (`tread-bench features`)",
    "inception": "Inception v3 from metrics.inception_weights, as in torch-fidelity",
}
SHIPPED_EXTRACTORS = ("digits-classifier",)  # those whose weights come with the package


class Metrics(Model):
    """What is measured in a cell, and when."""

    at: tuple[Int, ...] | None = Field(
        None, min_length=1, description="iterations at which to evaluate, ascending; empty: the last one"
    )
    generate: bool = Field(True, description="false: generate no images, so FID and similar metrics are not measured")
    num_samples: Int = Field(
        512, ge=10, description="generated images per evaluation; the Inception score has ten parts"
    )
    batch: Int = Field(256, ge=1, description="images generated and scored at a time; changes no figure")
    ema: bool = Field(True, description="evaluate the averaged weights")
    validation_samples: Int = Field(256, ge=1, description="held-out images in the dense validation loss")
    kid_subset_size: Int = Field(100, ge=2)
    kid_subsets: Int = Field(50, ge=1)
    neighbours: Int = Field(3, ge=1, description="k of precision and recall")
    similarity_samples: Int = Field(64, ge=1, description="held-out images in the layer cosine similarity")
    similarity_times: tuple[Float, ...] = Field(
        (), description="times of the layer similarity: t of flow, sigma of edm; empty: the objective's own"
    )
    routed_rates: tuple[Share, ...] = Field(
        (), description="rates at which the trained network is also run routed, to measure the training-inference gap"
    )
    routed_blocks: Blocks = Field((), description="START:END of the routed runs; empty: those of the cell's routes")
    extractor: str | None = Field(None, description="feature network; empty: the one that suits the data")
    extractor_weights: str | None = Field(None, description="safetensors file from `tread-bench features`")
    inception_weights: str | None = Field(None, description="torch-fidelity's Inception weights, a local file")
    also: Further = Field((), description="metrics beside FID, KID, Inception score, precision and recall")

    @field_validator("also")
    @classmethod
    def _are_further_ones(cls, also: Further) -> Further:
        for place, metric in enumerate(also):
            if metric.family in standard_metrics():
                keys = " and ".join(f"metrics.{key}" for key in keys_of(metric))
                raise ValueError(f"{metric.name} is always measured: leave it out{keys and f', and set {keys}'}")
            if metric.name in [other.name for other in also[:place]]:
                raise ValueError(f"{metric.name} is written twice; every metric must differ")
        return also

    @model_serializer(mode="wrap")
    def _without_none(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without further metrics, write what older versions wrote, since a cell's id is the hash of this."""
        written: dict[str, Any] = serialize(self)
        return written if self.also else {key: value for key, value in written.items() if key != "also"}

    @property
    def standard(self) -> tuple[MetricOptions, ...]:
        """Metrics of every cell that generates images, with their settings."""
        options = []
        for name, keys in _STANDARD.items():
            options.append(find_metric(name).options(**{option: getattr(self, key) for option, key in keys.items()}))
        return tuple(options)

    @property
    def of_samples(self) -> tuple[MetricOptions, ...]:
        """All metrics of generated images, in the order of their columns."""
        return (*self.standard, *self.also)
