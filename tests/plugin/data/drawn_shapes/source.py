"""The samples themselves."""

import numpy as np

from tread_bench import DataSource, ImageSet


def draw_shapes(options):
    pixels = np.stack([_draw(number, options) for number in range(options.count)])
    classes = np.arange(options.count) % options.num_classes
    last = options.count - options.count // 5
    train, held_out = (ImageSet(pixels[part], classes[part]) for part in (slice(last), slice(last, None)))
    return DataSource(train, held_out, options.num_classes)


def _draw(number, options):
    """(1, H, W) uint8 of one sample, by a generator of its own: the same whatever else is drawn."""
    generator, side = np.random.default_rng(number), options.image_size
    x, y = (axis - generator.uniform(0.35, 0.65) * side for axis in np.meshgrid(np.arange(side), np.arange(side)))
    radius = generator.uniform(0.2, 0.35) * side
    inside = (
        x**2 + y**2 <= radius**2,
        np.maximum(abs(x), abs(y)) <= radius,
        np.minimum(abs(x), abs(y)) <= radius / 3,
    )[number % options.num_classes]
    noise = generator.integers(0, 20, (1, side, side))
    return (inside * generator.integers(120, 236) + noise).astype(np.uint8)
