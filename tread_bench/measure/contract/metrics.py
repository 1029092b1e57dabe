"""The contract of metrics, as checks for their authors to run.

    from tread_bench.contract import check_metric

    def test_the_contract_holds():
        assert check_metric(COVERAGE, {"neighbours": 5}, changed={"neighbours": 3}) == []

Scanned digits with noise are compared with digits without, by the feature network that ships for digits. Where a metric
reads captions, characters with captions take their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.config.choices import DEFAULT_DATA
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.metrics import MetricFamily, MetricOptions, Needs, find_metric
from tread_bench.core.describe.plugins import by_name, named
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.data.glyphs.family import GlyphsData
from tread_bench.data.open import open_data
from tread_bench.data.source import CaptionedSplit, DataSplit, to_uint8
from tread_bench.measure.quality.features import choose_extractor
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric, Samples
from tread_bench.measure.quality.statistics import FeatureStatistics

IMAGES = 240  # of each set; more where a metric needs more
NOISE = 0.3  # of the set that takes the place of generated images
BATCH = 100
OF_ITSELF, OF_ORDER = 0.01, 0.05  # of the distance to figures of noise: what drawing subsets may change
OF_SOME_NOISE = 0.3  # of the distance to figures of images with some noise: the same
SUM_ROUNDING = 1e-4  # of the distance to figures of noise, of a sum of terms
ROUNDING = 1e-5  # relative
HALVED = 0.6  # other images are not quite alike

Figures = Mapping[str, float]


@dataclass(frozen=True)
class ImagesWithFeatures:
    """A set of images, each with its features, logits and label; its spatial features are its pixels."""

    pixels: Tensor  # (n, C, H, W) uint8
    features: Tensor
    logits: Tensor
    labels: Tensor
    captions: NDArray[np.str_] | None = None

    def __getitem__(self, index: slice | Tensor) -> ImagesWithFeatures:
        captions = None if self.captions is None else self.captions[index]
        tensors = (self.pixels[index], self.features[index], self.logits[index], self.labels[index])
        return ImagesWithFeatures(*tensors, captions)

    def records(self, batch: int = BATCH, is_real: bool = False) -> ImageRecords:
        """What metrics see of these images, without logits where they are real ones."""
        pixels = self.pixels.flatten(1).float()
        statistics, spatial = FeatureStatistics(self.features.shape[1]), FeatureStatistics(pixels.shape[1])
        for start in range(0, len(self.pixels), batch):
            part = slice(start, start + batch)
            statistics.add(self.features[part], None if is_real else self.logits[part])
            spatial.add(pixels[part])
        captions = None if self.captions is None or is_real else self.captions.tolist()
        batches = partial(iter, self.pixels.split(batch))
        return ImageRecords(statistics, batches, self.labels, spatial, captions=captions)


@dataclass(frozen=True)
class MetricSubject:
    """A metric with its settings and, if given, with other settings that change its figures."""

    family: MetricFamily
    options: MetricOptions
    changed: MetricOptions | None = None

    @cached_property
    def metric(self) -> OpenMetric:
        return OpenMetric(self.family, named(self.family.builder)(self.options), self.options)

    @cached_property
    def count(self) -> int:
        return max(IMAGES, self.family.min_samples(self.options))

    @cached_property
    def real(self) -> ImagesWithFeatures:
        """Real images."""
        return self.real_of(self.count)

    def real_of(self, count: int) -> ImagesWithFeatures:
        """Return that many real images."""
        index = np.arange(count) % len(self.images)
        return self._with_features(to_uint8(self.images.images(index)), index)

    @cached_property
    def noisy(self) -> ImagesWithFeatures:
        """Other images with some noise, in place of generated ones."""
        noise = torch.randn(self.real.pixels.shape, generator=torch.Generator().manual_seed(0))
        return self._with_features(to_uint8(self.images.images(self._others) + NOISE * noise), self._others)

    @cached_property
    def far(self) -> ImagesWithFeatures:
        """Pure noise."""
        generator = torch.Generator().manual_seed(1)
        shape = self.real.pixels.shape
        pixels = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
        return self._with_features(pixels, self._others)

    @cached_property
    def data(self) -> DataOptions:
        """Digits, or characters where captions are read."""
        if Needs.CAPTIONS in self.family.needs:
            return GlyphsData.model_validate({"captions": "words"})
        return DEFAULT_DATA

    @cached_property
    def images(self) -> DataSplit:
        return open_data(self.data).train

    @cached_property
    def _others(self) -> NDArray[np.int64]:
        """Places of images that are not the real ones."""
        return (np.arange(self.count) + self.count) % len(self.images)

    def _with_features(self, pixels: Tensor, index: NDArray[np.int64]) -> ImagesWithFeatures:
        """Pixels in place of those of the images `index`, with their features and what belongs to these images."""
        features, logits, _ = choose_extractor(Metrics(), self.data).features(pixels)
        assert logits is not None, "the feature network of digits and glyphs is a classifier"
        captions = np.array(self.images.captions(index, 0, 0)) if isinstance(self.images, CaptionedSplit) else None
        return ImagesWithFeatures(pixels, features, logits, self.images.labels(index), captions)

    def figures(self, generated: ImagesWithFeatures, real: ImagesWithFeatures, batch: int = BATCH) -> Figures:
        return self.metric.figures(generated.records(batch), real.records(batch, is_real=True))

    @cached_property
    def as_measured(self) -> Figures:
        return self.figures(self.noisy, self.real)

    @cached_property
    def of_noise(self) -> Figures:
        return self.figures(self.far, self.real)


def check_figures(subject: MetricSubject) -> Iterator[str]:
    """It returns the figures of its description, all finite; otherwise no other check is run."""
    for name, value in subject.as_measured.items():
        if not math.isfinite(value):
            yield f"{name} is {value}"
        elif not math.isfinite(subject.of_noise[name]):
            yield f"{name} of noise is {subject.of_noise[name]}"


def check_needs(subject: MetricSubject) -> Iterator[str]:
    """It reads everything that its description needs: a need limits where it can be used."""
    family = subject.family
    read: dict[bool, set[Needs]] = {False: set(), True: set()}  # of real images: True

    class Watched(Samples):
        def _needed(self, one: Needs, *stronger: Needs) -> ImageRecords:
            read[self._is_real] |= {one, *stronger}
            return super()._needed(one, *stronger)

    generated, real = subject.noisy.records(), subject.real.records(is_real=True)
    subject.metric.metric(Watched(generated, family), Watched(real, family, is_real=True))
    if unread := family.needs - read[False] - read[True]:
        yield f"it never reads {', '.join(sorted(unread))}: leave that out of needs"
    if family.real_needs is not None and (unread := family.real_needs - read[True]):
        yield f"it never reads {', '.join(sorted(unread))} of real images: leave that out of real_needs"


def check_itself(subject: MetricSubject) -> Iterator[str]:
    """A set compared with itself gives the stated value, and noise a worse one; if none is stated, real images have no
    effect.
    """
    itself = subject.figures(subject.real, subject.real)
    other = subject.figures(subject.noisy, subject.far)
    for figure in subject.family.figures:
        value, of_noise = itself[figure.name], subject.of_noise[figure.name]
        if figure.of_itself is None:
            if other[figure.name] != subject.as_measured[figure.name]:
                yield f"{figure.name} depends on the real images: state of_itself, its value of a set with itself"
            continue
        if not _is_of_itself(subject, figure.name, value, figure.of_itself):
            yield f"{figure.name} of a set with itself: expected {figure.of_itself:g}; saw {value:g}"
        elif (of_noise > value) is not figure.lower_is_better:
            better = "lower" if figure.lower_is_better else "higher"
            yield f"{figure.name} of noise is {of_noise:g}, of a set with itself {value:g}, where {better} is better"


def _is_of_itself(subject: MetricSubject, name: str, value: float, stated: float) -> bool:
    """Whether a figure of a set with itself is the stated one, but for rounding, drawn subsets, or a bias of 1 / n."""
    off, of_noise = abs(value - stated), abs(subject.of_noise[name] - stated)
    if not SUM_ROUNDING * of_noise < off <= OF_ITSELF * of_noise:
        return off <= SUM_ROUNDING * of_noise

    # A mean over subsets, which another order draws anew: much nearer than images with some noise.
    digits = subject.real
    in_order = subject.figures(digits[digits.labels.argsort(stable=True)], digits)
    if abs(in_order[name] - value) > ROUNDING * of_noise:
        return off <= OF_SOME_NOISE * abs(subject.as_measured[name] - stated)

    # An unbiased estimate, whose terms count different pairs: half as far off with twice the images.
    twice = subject.real_of(2 * subject.count)
    return abs(subject.figures(twice, twice)[name] - stated) <= HALVED * off


def check_order(subject: MetricSubject) -> Iterator[str]:
    """The order of the images has no effect, except on which subsets are drawn."""
    order = subject.noisy.labels.argsort(stable=True)
    real = subject.real.labels.argsort(stable=True)
    in_order = subject.figures(subject.noisy[order], subject.real[real])
    for name, value in subject.as_measured.items():
        if abs(in_order[name] - value) > OF_ORDER * abs(subject.of_noise[name] - value):
            yield f"{name} is {value:g}, and {in_order[name]:g} with the same images in another order"


def check_batches(subject: MetricSubject) -> Iterator[str]:
    """The batch size changes the figures by rounding only."""
    for batch in (7, subject.count):
        split = subject.figures(subject.noisy, subject.real, batch)
        for name, value in subject.as_measured.items():
            if not math.isclose(split[name], value, rel_tol=ROUNDING, abs_tol=1e-9):
                yield f"{name} is {value:g} in batches of {BATCH}, and {split[name]:g} in batches of {batch}"


def check_determinism(subject: MetricSubject) -> Iterator[str]:
    """Measured again, also by a second instance, it gives the same bits: its random draws have a fixed seed."""
    torch.manual_seed(0)
    np.random.seed(0)
    first = subject.figures(subject.noisy, subject.real)
    torch.manual_seed(1)
    np.random.seed(1)
    again = replace(subject).figures(subject.noisy, subject.real)
    for name, value in first.items():
        if again[name] != value:
            yield f"{name} is {value!r}, and {again[name]!r} when measured again"


def check_min_samples(subject: MetricSubject) -> Iterator[str]:
    """The smallest number of samples in its description is enough: nothing is NaN or silently reduced."""
    least = subject.family.min_samples(subject.options)
    if not isinstance(least, int) or least < 1:
        yield f"min_samples must be a whole number above 0; saw {least!r}"
        return
    of_class = subject.family.min_per_class(subject.options)
    generated, real = (_fewest(images, least, of_class) for images in (subject.noisy, subject.real))
    try:
        found = subject.figures(generated, real)
    except Exception as error:
        yield f"of {least} images, as few as min_samples says, it raised {type(error).__name__}: {error}"
        return
    for name, value in found.items():
        if not math.isfinite(value):
            yield f"{name} of {least} images, as few as min_samples says, is {value}"


def _fewest(images: ImagesWithFeatures, least: int, of_class: int) -> ImagesWithFeatures:
    """The first images; where classes count, the first of each."""
    if not of_class:
        return images[:least]
    places = [(images.labels == label).nonzero()[:of_class, 0] for label in images.labels.unique()]
    return images[torch.cat(places).sort().values]


def check_protocol(subject: MetricSubject) -> Iterator[str]:
    """Settings that change the figures change the text in the fingerprint."""
    if subject.changed is None:
        return
    other = replace(subject, options=subject.changed, changed=None)
    if other.figures(subject.noisy, subject.real) == subject.as_measured:
        yield "`changed` gives the same figures: give settings that change one"
    elif subject.family.protocol(subject.options) == subject.family.protocol(subject.changed):
        yield f"other settings give other figures under one protocol, {subject.family.protocol(subject.options)!r}"


METRIC_CHECKS: tuple[Callable[[MetricSubject], Iterator[str]], ...] = (
    check_figures,
    check_needs,
    check_itself,
    check_order,
    check_batches,
    check_determinism,
    check_min_samples,
    check_protocol,
)


def check_metric(
    metric: MetricFamily | str, options: Mapping[str, Any] | None = None, *, changed: Mapping[str, Any] | None = None
) -> list[Violation]:
    """Return the violations of the contract by a metric, in the order of `METRIC_CHECKS`; empty if there are none.

    Args:
        metric: what is announced in the group `tread_bench.metrics`, or its name; it must be installed.
        options: as a suite writes them.
        changed: other settings of the same metric, which give other figures. A metric with settings needs them: its
            protocol must tell the two apart.

    Raises:
        ValueError: the options are not valid, or a metric with settings has no `changed`.
    """
    metric = by_name(metric, find_metric)
    # The metric with its settings, and with others.
    chosen = metric.options.model_validate({"name": metric.name, **(options or {})})
    if changed is None and metric.options.model_fields.keys() - {"name"}:
        raise ValueError(f"metric {metric.name} has settings: give `changed`, others that give other figures")
    other = None if changed is None else metric.options.model_validate({"name": metric.name, **changed})
    subject = MetricSubject(metric, chosen, other)

    # Without valid figures, no other check makes sense.
    with random_state_kept():
        return run_checks(METRIC_CHECKS, subject, first_decides=True)


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Restore the global generators of torch (CPU) and NumPy afterwards."""
    numpy_state = np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        np.random.set_state(numpy_state)
