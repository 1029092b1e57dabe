"""Lookup of feature networks by name, through entry points of the group `tread_bench.extractors`.

A feature network turns images into the features, and perhaps logits, that metrics compare. Its `ExtractorFamily` states
what the rest of the package needs to know about it; nobody compares its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tread_bench.core.config.base import Model
from tread_bench.core.describe.plugins import Description, Kind

# Of feature networks, as `tread_bench.core.describe.metrics.Needs` names them.
OUTPUTS = ("features", "statistics", "logits", "spatial")


class ExtractorOptions(Model):
    """A feature network's settings in a suite. A subclass states its name: `name: Literal["mine"] = "mine"`."""

    name: str = ""

    @property
    def family(self) -> ExtractorFamily:
        return find_extractor(self.name)


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

    @property
    def outputs(self) -> frozenset[str]:
        """What it gives of an image, by the names of what metrics need."""
        found = {"features", "statistics"}
        if self.has_logits:
            found.add("logits")
        if self.has_spatial:
            found.add("spatial")
        return frozenset(found)


EXTRACTORS = Kind("feature network", "tread_bench.extractors", ExtractorFamily, ExtractorOptions, key="extractor")
extractors = EXTRACTORS.all
find_extractor = EXTRACTORS.find
