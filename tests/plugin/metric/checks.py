"""What must hold of every metric: save this beside your own, and put its description in place of METRIC.

Scanned digits with noise are compared with digits without, by the feature network that ships for digits; characters
with captions where a metric reads these. CHANGED are other settings, which give other figures.
"""

import math
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from feature_coverage.family import COVERAGE as METRIC

from tread_bench.core.config.choices import DEFAULT_DATA
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.describe.metrics import Needs
from tread_bench.core.describe.plugins import named
from tread_bench.data.glyphs.family import GlyphsData
from tread_bench.data.open import open_data
from tread_bench.data.source import to_uint8
from tread_bench.measure.quality.features import choose_extractor
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric, Samples
from tread_bench.measure.quality.statistics import FeatureStatistics

OPTIONS, CHANGED = {"neighbours": 5}, {"neighbours": 3}


def options_of(written):
    return METRIC.options.model_validate({"name": METRIC.name, **written})


@dataclass(frozen=True)
class Images:
    """Images (n, C, H, W) with their features and logits, and the samples whose labels and captions they have."""

    pixels: torch.Tensor
    features: torch.Tensor
    logits: torch.Tensor
    index: np.ndarray

    def __getitem__(self, places):
        return Images(self.pixels[places], self.features[places], self.logits[places], self.index[places])

    @property
    def labels(self):
        return data().train.labels(self.index)

    def records(self, batch=100, is_real=False):
        """What metrics see of them; spatial features are the pixels, and logits are those of generated images."""
        pixels = self.pixels.flatten(1).float()
        statistics, spatial = FeatureStatistics(self.features.shape[1]), FeatureStatistics(pixels.shape[1])
        for start in range(0, len(pixels), batch):
            part = slice(start, start + batch)
            statistics.add(self.features[part], None if is_real else self.logits[part])
            spatial.add(pixels[part])
        has_captions = Needs.CAPTIONS in METRIC.needs and not is_real
        captions = list(data().train.captions(self.index, 0, 0)) if has_captions else None
        batches = partial(iter, self.pixels.split(batch))
        return ImageRecords(statistics, batches, self.labels, spatial, captions=captions)


def images_of(pixels, index):
    features, logits, _ = choose_extractor(Metrics(), chosen_data()).features(pixels)
    return Images(pixels, features, logits, index)


def chosen_data():
    return GlyphsData.model_validate({"captions": "words"}) if Needs.CAPTIONS in METRIC.needs else DEFAULT_DATA


@cache
def data():
    return open_data(chosen_data())


def count():
    return max(240, METRIC.min_samples(options_of(OPTIONS)))


@cache
def real(first=0, number=None):
    split = data().train
    index = (np.arange(number or count()) + first) % len(split)
    return images_of(to_uint8(split.images(index)), index)


@cache
def noisy():
    """Other images with some noise, in place of generated ones."""
    images = real(first=count())
    noise = torch.randn(images.pixels.shape, generator=torch.Generator().manual_seed(0))
    return images_of(to_uint8(data().train.images(images.index) + 0.3 * noise), images.index)


@cache
def far():
    """Pure noise."""
    images, generator = real(first=count()), torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, images.pixels.shape, generator=generator, dtype=torch.uint8)
    return images_of(pixels, images.index)


def figures(generated, reference, batch=100, written=None):
    options = options_of(OPTIONS if written is None else written)
    metric = OpenMetric(METRIC, named(METRIC.builder)(options), options)
    return metric.figures(generated.records(batch), reference.records(batch, is_real=True))


def test_figures():
    """It measures the figures of its description, and they are finite."""
    for generated in (noisy(), far()):
        found = figures(generated, real())
        assert found.keys() == {figure.name for figure in METRIC.figures}
        assert all(math.isfinite(value) for value in found.values())


def test_needs():
    """It reads all that it needs: a need limits where it can be used."""
    read = {False: set(), True: set()}  # of real images: True

    class Watched(Samples):
        def _needed(self, one, *stronger):
            read[self._is_real] |= {one, *stronger}
            return super()._needed(one, *stronger)

    metric = named(METRIC.builder)(options_of(OPTIONS))
    metric(Watched(noisy().records(), METRIC), Watched(real().records(is_real=True), METRIC, is_real=True))
    assert read[False] | read[True] >= METRIC.needs
    assert read[True] >= (METRIC.real_needs or set())


def test_itself():
    """Of a set with itself a figure is `of_itself`, and noise is worse; without it real images have no effect.

    An unbiased estimate may differ by what halves with twice the images, and a mean over drawn subsets by 1 % of the
    distance of noise and 30 % of that of slightly noisy images.
    """
    images, twice = real(), real(number=2 * count())
    order = images.labels.argsort(stable=True)
    itself, of_noise, as_measured = figures(images, images), figures(far(), images), figures(noisy(), images)
    in_order, of_twice, against_noise = figures(images[order], images), figures(twice, twice), figures(noisy(), far())
    for figure in METRIC.figures:
        value, stated = itself[figure.name], figure.of_itself
        if stated is None:
            assert against_noise[figure.name] == as_measured[figure.name]
            continue
        off, distance = abs(value - stated), abs(of_noise[figure.name] - stated)
        if off > 1e-4 * distance:
            is_drawn = abs(in_order[figure.name] - value) > 1e-5 * distance
            of_some_noise = 0.3 * abs(as_measured[figure.name] - stated)
            assert off <= 0.01 * distance
            assert off <= of_some_noise if is_drawn else abs(of_twice[figure.name] - stated) <= 0.6 * off
        assert (of_noise[figure.name] > value) is figure.lower_is_better


def test_order():
    """The order of the images has no effect, but for what drawing subsets by their places changes."""
    generated, reference = noisy(), real()
    orders = [images.labels.argsort(stable=True) for images in (generated, reference)]
    in_order, of_noise = figures(generated[orders[0]], reference[orders[1]]), figures(far(), reference)
    for name, value in figures(generated, reference).items():
        assert abs(in_order[name] - value) <= 0.05 * abs(of_noise[name] - value)


def test_batches():
    """The figures do not depend on how many images come at a time, but for rounding."""
    for name, value in figures(noisy(), real()).items():
        for batch in (7, count()):
            assert math.isclose(figures(noisy(), real(), batch)[name], value, rel_tol=1e-5, abs_tol=1e-9)


def test_determinism():
    """Measured again, it gives the same bits."""
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        np.random.seed(seed)
        found.append(figures(noisy(), real()))
    assert found[0] == found[1]


def test_min_samples():
    """As few images as `min_samples` are enough."""
    least = METRIC.min_samples(options_of(OPTIONS))
    assert isinstance(least, int) and least >= 1
    assert all(math.isfinite(value) for value in figures(noisy()[:least], real()[:least]).values())


def test_protocol():
    """Settings that give other figures have another `protocol`."""
    assert CHANGED is not None or not METRIC.options.model_fields.keys() - {"name"}
    if CHANGED is not None:
        assert figures(noisy(), real(), written=CHANGED) != figures(noisy(), real())
        assert METRIC.protocol(options_of(CHANGED)) != METRIC.protocol(options_of(OPTIONS))
