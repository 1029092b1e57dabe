"""Lookup of metrics and of feature networks by name, through entry points of `tread_bench.metrics` and `.extractors`.

A metric computes figures of a set of generated images, usually compared with real ones. A feature network turns images
into the features, and perhaps logits, that metrics compare. A `MetricFamily` and an `ExtractorFamily` state what the
rest of the package needs to know about one; nobody compares its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from tread_bench.core.config.base import Options
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.plugins import Description, Kind
from tread_bench.core.stored.columns import is_taken


class ExtractorOptions(Options):
    """A feature network's settings in a suite. A subclass states its name: `name: Literal["mine"] = "mine"`."""

    @property
    def family(self) -> ExtractorFamily:
        return extractors.find(self.name)


def weights_file(options: Any) -> Iterable[tuple[str, str]]:
    """Return the file of the option `weights`, if it is given."""
    return () if options.weights is None else (("weights", options.weights),)


def settings_of(options: ExtractorOptions) -> dict[str, Any]:
    """Return the settings that features depend on: all but the name and files; those that are left out, too."""
    files = {key for key, _ in options.family.files(options)}
    return options.model_dump(mode="json", exclude={"name", *files}, exclude_none=True)


@dataclass(frozen=True)
class Published:
    """A file of weights that a project publishes.

    Args:
        file: its name, under which it is looked for in the folder of weights.
        where: the project and its release in words, and the address of the page that offers the file.
        sha256: hash of its content, or the first digits of it where only these are published; empty: not published.
    """

    file: str
    where: str
    sha256: str = ""


@dataclass(frozen=True, kw_only=True)
class ExtractorFamily(Description):
    """Torch-free description of a feature network.

    Args:
        name: its name in a suite.
        options: its typed settings; the docstring's first line is what `tread-bench list extractors` shows.
        builder: "module:attribute" of a callable (options, (channels, side) of the images) -> `Extractor`.
        has_logits: whether it is a classifier, whose logits metrics can read.
        ships: whether its weights come with its package, so that it needs no settings and a data source can name it.
        files: key of the options -> file that the network reads, such as its weights.
        has_spatial: whether its network, called with `spatial=True`, returns a third output: features that keep the
            places in the image, as sFID compares them.
        resizes: whether its network takes images of any height and width, and not square ones alone.
        distance: title of the Fréchet distance of its features; a network that its builder calls otherwise has "FID".
        published: files of weights that `find_weights` looks for, the best known first.
        stored_as: arrays of mean and covariance of its features in an .npz file of reference statistics.
        spatial_stored_as: those of its spatial features.
        stored_with: options that such statistics depend on, each with its value where the file does not say it; a file
            says it as a text in the array `OPTION_NAME`.
    """

    options: type[ExtractorOptions]
    builder: str
    has_logits: bool
    ships: bool
    files: Callable[[Any], Iterable[tuple[str, str]]] = lambda options: ()
    has_spatial: bool = False
    resizes: bool = False
    distance: str = "FID"
    published: tuple[Published, ...] = ()
    stored_as: tuple[str, str] | None = None
    spatial_stored_as: tuple[str, str] | None = None
    stored_with: Mapping[str, str] = field(default_factory=dict)

    def distance_on(self, network: str) -> str:
        """Title of the Fréchet distance on the network that was opened: `distance` belongs to the one of this name."""
        return self.distance if network == self.name or self.distance == "FID" else f"FID ({network})"

    def lacks(self, metric: MetricFamily) -> str:
        """Return what a metric needs of a feature network and this one does not give, in words; empty for nothing."""
        if Needs.LOGITS in metric.needs and not self.has_logits:
            return "logits"
        return "spatial features" if Needs.SPATIAL in metric.needs and not self.has_spatial else ""


extractors = Kind("feature network", "tread_bench.extractors", ExtractorFamily, ExtractorOptions, key="extractor")
find_extractor = extractors.find


_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Needs(StrEnum):
    """What a metric reads of a set of images; `Samples` holds only what the description names."""

    FEATURES = "features"  # outputs of the feature network, with their mean and covariance
    LOGITS = "logits"  # outputs of the feature network for generated images
    IMAGES = "images"  # uint8
    LABELS = "labels"  # labels that the images were generated for, or that real ones have
    CAPTIONS = "captions"  # captions that the images were generated for
    STATISTICS = "statistics"  # mean and covariance of the features, and not the features themselves
    SPATIAL = "spatial"  # mean and covariance of features that keep their place in the image


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One figure of a metric with its uncertainty.

    Args:
        value: the figure.
        low: lower end of its 95 % interval; None: it has none.
        high: upper end of the interval.
        method: how the interval was made, and what it does not include; empty: there is no interval.
        points: (number of images, value) of the fit that the figure was extrapolated from; empty: of no fit.
        warning: what a reader must know of the value, which `evaluate` prints beside it; empty: nothing.
    """

    value: float
    low: float | None = None
    high: float | None = None
    method: str = ""
    points: tuple[tuple[int, float], ...] = ()
    warning: str = ""

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a metric, and its column in results.csv.

    Args:
        name: name of the column.
        title: title in the tables of the page.
        definition: what it means, with its source, and whether lower or higher is better.
        lower_is_better: whether the lower of two values is better; None: unknown, for a metric that is not installed.
        of_itself: its value if the generated images are the real ones; None: it does not compare with real images.
        unit: such as "px"; empty for none.
        by_linear_algebra: NumPy computes it with linear algebra, whose kernels depend on the machine, so the last
            digits may differ between machines.
    """

    name: str
    title: str
    definition: str
    lower_is_better: bool | None
    of_itself: float | None
    unit: str = ""
    by_linear_algebra: bool = False

    @classmethod
    def unknown(cls, name: str) -> Self:
        """Create a figure of a metric that is not installed here."""
        definition = "of a metric that is not installed where this was made"
        return cls(name=name, title=name, definition=definition, lower_is_better=None, of_itself=None)


class MetricOptions(Options):
    """A metric's settings in a suite. A subclass states its metric's name: `name: Literal["mine"] = "mine"`."""

    @property
    def family(self) -> MetricFamily:
        return metrics.find(self.name)


_OF_GENERATED = frozenset({Needs.LOGITS, Needs.LABELS, Needs.CAPTIONS})


@dataclass(frozen=True, kw_only=True)
class MetricFamily(Description):
    """Torch-free description of a metric of generated images.

    Args:
        name: its name in a suite.
        options: its typed settings; the docstring's first line is what `tread-bench list metrics` shows.
        builder: "module:attribute" of a callable (options) -> `Metric`.
        figures: what it measures, in the order of the columns.
        needs: what it reads of generated images, and of real ones where `real_needs` says nothing else.
        real_needs: what it reads of real images; None: `needs`, but for logits and labels.
        min_samples: options -> the smallest number of images, generated or real, that it accepts; real ones count where
            their features are read one by one.
        protocol_samples: number of generated images in the protocol that published figures follow, below which a figure
            is not comparable with them; 0: it has none.
        protocol: options -> everything its figures depend on besides the images, feature network and reference, in
            words: its settings, and a number that increases when its definition changes. Part of the fingerprint;
            empty for nothing.
        files: key of the options -> file that the metric reads.
        unfit: (options, data options) -> why samples of networks trained on these data cannot be measured, in words;
            empty: they can.
    """

    options: type[MetricOptions]
    builder: str
    figures: tuple[Figure, ...]
    needs: frozenset[Needs]
    min_samples: Callable[[Any], int]
    protocol: Callable[[Any], str]
    real_needs: frozenset[Needs] | None = None
    protocol_samples: int = 0
    files: Callable[[Any], Iterable[tuple[str, str]]] = lambda options: ()
    unfit: Callable[[Any, DataOptions], str] = lambda options, data: ""

    def __post_init__(self) -> None:
        """Raise ValueError for a figure that cannot be a column of results.csv."""
        for figure in self.figures:
            if not _NAME.fullmatch(figure.name) or is_taken(figure.name):
                rule = "the name of a figure must be a column of results.csv that is not taken, in lower case"
                raise ValueError(f"{figure.name!r}: {rule}, such as coverage")

    @property
    def needs_of_real(self) -> frozenset[Needs]:
        """What it reads of real images."""
        return self.needs - _OF_GENERATED if self.real_needs is None else self.real_needs


def _claimed(metric: MetricFamily) -> tuple[str, ...]:
    """The metric's name and those of its figures: two metrics cannot share a column."""
    return (metric.name, *(figure.name for figure in metric.figures))


metrics = Kind("metric", "tread_bench.metrics", MetricFamily, MetricOptions, names=_claimed)


def known_figures() -> dict[str, Figure]:
    """Return all figures of these metrics, by name."""
    return {figure.name: figure for metric in metrics().values() for figure in metric.figures}
