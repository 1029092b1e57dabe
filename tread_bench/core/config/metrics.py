"""What is measured in a cell, and when."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    WrapSerializer,
    field_validator,
)

from tread_bench.core.config.base import Float, Int, Model, Share, is_unused, no_boolean, one_of, some_of
from tread_bench.core.describe.guidance import Blocks, iteration_at, iteration_or_share
from tread_bench.core.describe.metrics import ExtractorOptions, MetricFamily, MetricOptions, extractors, metrics
from tread_bench.core.errors import UserError

ENOUGH_POINTS = 6  # evaluations that FID between them is interpolated from

# Metrics of every cell that generates images, in the order of their columns; their options by keys among `metrics`.
_STANDARD: Mapping[str, Mapping[str, str]] = {
    "fid": {},
    "sfid": {},
    "kid": {"subset_size": "kid_subset_size", "subsets": "kid_subsets"},
    "inception_score": {},
    "precision_recall": {"neighbours": "neighbours"},
}

# What a protocol of published figures sets of the metrics, beside their defaults. Cells have their own subsets of KID.
ProtocolName = Literal["torch-fidelity", "adm"]
_DEFAULT_PROTOCOL: ProtocolName = "torch-fidelity"
_PROTOCOLS: Mapping[ProtocolName, Mapping[str, Mapping[str, Any]]] = {
    "torch-fidelity": {"kid": {"subset_size": 1000, "subsets": 100}},
    "adm": {"inception_score": {"chunk": 5000}, "precision_recall": {"distances": "float16"}},
}


def in_protocol(name: str, protocol: ProtocolName, **settings: Any) -> MetricOptions:
    """Return a metric as a protocol of published figures sets it, with further settings. Raises ValueError."""
    return metrics.find(name).options(**{**_PROTOCOLS[protocol].get(name, {}), **settings})


def standard_metrics() -> list[MetricFamily]:
    """Return the metrics of every cell that generates images, in the order of their columns."""
    return [metrics.find(name) for name in _STANDARD]


def keys_of(metric: MetricOptions) -> list[str]:
    """Return the keys of a suite's `metrics` that hold the settings of a metric; empty if it has none."""
    standard = _STANDARD.get(metric.name)
    return ["also"] if standard is None else list(standard.values())


if TYPE_CHECKING:
    from tread_bench.core.describe.data_sources import DataOptions

    Network = ExtractorOptions
    Further = tuple[MetricOptions, ...]
else:
    Network = one_of(extractors())
    Further = some_of(metrics(), "metrics", "fid_infinity")

# Feature networks -> the key of `metrics` that holds their weights.
_WEIGHTS = {"trained-classifier": "extractor_weights", "inception": "inception_weights"}
GIVE_WEIGHTS = (
    "train one with `tread-bench features SUITE --out FILE` and set metrics.extractor_weights: FILE, "
    "or give torch-fidelity's Inception weights as metrics.inception_weights: FILE"
)


def _short(options: ExtractorOptions | None, serialize: SerializerFunctionWrapHandler) -> Any:
    """Without settings, write the name alone: a cell's id is the hash of this."""
    return options.name if options is not None and options == type(options)() else serialize(options)


Evaluated = Annotated[
    int | float, AfterValidator(partial(iteration_or_share, first=0)), BeforeValidator(no_boolean)
]  # not beyond the training's end if `suite.resolve` says so


class Metrics(Model):
    """What is measured in a cell, and when."""

    at: tuple[Evaluated, ...] | None = Field(None, min_length=1, description="iterations or shares; empty: at the end")
    generate: bool = Field(True, description="false: generate no images, so FID and similar metrics are not measured")
    num_samples: Int = Field(512, ge=10, description="generated images per evaluation; 10 or more")
    batch: Int = Field(256, ge=1, description="images generated and scored at a time; changes no figure")
    ema: bool = Field(True, description="evaluate the averaged weights")
    validation_samples: Int = Field(256, ge=1, description="held-out images in the dense validation loss")
    kid_subset_size: Int = Field(100, ge=2)
    kid_subsets: Int = Field(50, ge=1)
    neighbours: Int = Field(3, ge=1, description="k of precision and recall")
    similarity_samples: Int = Field(64, ge=1, description="held-out images in the layer cosine similarity")
    similarity_times: tuple[Float, ...] = Field((), description="t of flow, sigma of edm; empty: the objective's own")
    routed_rates: tuple[Share, ...] = Field((), description="at which the trained network is also run routed")
    routed_blocks: Blocks = Field((), description="START:END of the routed runs; empty: those of the cell's routes")
    extractor: Annotated[Network | None, WrapSerializer(_short)] = Field(None, description="empty: that of the data")
    extractor_weights: str | None = Field(None, description="safetensors file from `tread-bench features`")
    inception_weights: str | None = Field(None, description="torch-fidelity's Inception weights, a local file")
    reference: str | None = Field(None, exclude_if=is_unused, description=".npz file in place of real images")
    also: Further = Field((), exclude_if=is_unused, description="metrics beside those that are always measured")
    protocol: ProtocolName = Field(
        _DEFAULT_PROTOCOL,
        exclude_if=lambda value: value == _DEFAULT_PROTOCOL,
        description="adm: Inception score, precision and recall as ADM's evaluator computes them",
    )

    @field_validator("reference")
    @classmethod
    def _is_of_statistics(cls, reference: str | None) -> str | None:
        if reference is not None and not reference.endswith(".npz"):
            raise ValueError(f"{reference!r}: must be an .npz file of statistics or images, such as ADM publishes")
        return reference

    @field_validator("also")
    @classmethod
    def _are_further_ones(cls, also: Further) -> Further:
        for metric in also:
            if metric.family in standard_metrics():
                keys = " and ".join(f"metrics.{key}" for key in keys_of(metric))
                raise ValueError(f"{metric.name} is always measured: leave it out{keys and f', and set {keys}'}")
            if [other.name for other in also].count(metric.name) > 1:
                raise ValueError(f"{metric.name} is written twice; every metric must differ")
        return also

    def iterations(self, last: int) -> tuple[int, ...]:
        """Return at which iterations a training of `last` is evaluated."""
        return (last,) if self.at is None else tuple(iteration_at(moment, last) for moment in self.at)

    @property
    def standard(self) -> tuple[MetricOptions, ...]:
        """Metrics of every cell that generates images, with their settings."""
        found = []
        for name, keys in _STANDARD.items():
            settings = {option: getattr(self, key) for option, key in keys.items()}
            found.append(in_protocol(name, self.protocol, **settings))
        return tuple(found)

    @property
    def of_samples(self) -> tuple[MetricOptions, ...]:
        """All metrics of generated images, in the order of their columns."""
        return (*self.standard, *self.also)

    def lacks_network(self, data: DataOptions) -> bool:
        """Return whether no feature network is named and none ships for the data, or the named one has no weights."""
        chosen = self.extractor
        given = [network for network, key in _WEIGHTS.items() if getattr(self, key) is not None]
        if chosen is None:
            return not given and data.family.extractor is None
        has_weights = chosen.family.ships or getattr(chosen, "weights", "") is not None
        return not has_weights and chosen.name not in given

    def network(self, data: DataOptions) -> ExtractorOptions:
        """Return the feature network with its settings: as named, or whose weights are given, or the one of the data.

        Raises:
            UserError: there is none, or the choice is ambiguous.
        """
        given = {network: file for network, key in _WEIGHTS.items() if (file := getattr(self, key)) is not None}
        chosen = self.extractor
        if chosen is None and len(given) > 1:
            keys = " and ".join(f"metrics.{key}" for key in _WEIGHTS.values())
            raise UserError(f"{keys} are both given: set metrics.extractor to {' or '.join(given)}")
        if chosen is None:
            name = next(iter(given), data.family.extractor)
            if name is None:
                rule = f"FID needs a feature network, and none ships for data {data.name!r}"
                raise UserError(f"{rule}: {GIVE_WEIGHTS}")
            chosen = extractors.find(name).options()
        if chosen.name not in given:
            return chosen
        if any(chosen.family.files(chosen)):
            key = _WEIGHTS[chosen.name]
            raise UserError(f"metrics.{key} and metrics.extractor.weights are both given: leave one out")
        return chosen.model_copy(update={"weights": given[chosen.name]})

    def measured(self, data: DataOptions) -> tuple[MetricOptions, ...]:
        """Return the metrics that the feature network can measure; the figures of the others stay empty.

        Raises:
            UserError: there is no feature network, or an added metric needs what the network does not have.
        """
        lacking = self.not_measured(data)
        for metric in self.also:
            if metric.name in lacking:
                rule = lacking[metric.name]
                raise UserError(f"metric {metric.name}: {rule}; leave it out, or choose another metrics.extractor")
        return tuple(metric for metric in self.of_samples if metric.name not in lacking)

    def not_measured(self, data: DataOptions) -> dict[str, str]:
        """Return the metrics that the feature network cannot measure -> what they need, in words.

        Raises:
            UserError: there is no feature network.
        """
        network = self.network(data)
        found = {}
        for metric in self.of_samples:
            if lacking := network.family.lacks(metric.family):
                found[metric.name] = f"needs {lacking}, and feature network {network.name} has none"
        return found
