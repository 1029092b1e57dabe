from __future__ import annotations

import numpy as np
import pytest

from tread_bench.config import RandomLatentsData
from tread_bench.data import open_data
from tread_bench.errors import UserError
from tread_bench.suite_file import load_plan

SUITE = """\
name: noise
base:
  backbone: DiT-S/2
  data: random_latents
  training: {iterations: 1}
"""


def latents(**changes):
    return open_data(RandomLatentsData(name="random_latents", **changes))


def test_the_default_has_the_shape_of_imagenet_256_latents():
    data = latents(count=10)
    assert (data.channels, data.image_size, data.num_classes) == (4, 32, 1000)
    assert (len(data.train), len(data.held_out)) == (8, 2)


def test_a_sample_depends_on_its_index_alone():
    few, many = latents(count=50), latents(count=500)
    both = np.concatenate([few.train.pixels, few.held_out.pixels])
    assert np.array_equal(both, many.train.pixels[:50])
    assert np.array_equal(few.train.classes, many.train.classes[:40])


def test_values_fill_the_range_and_labels_the_classes():
    data = latents(count=1000, num_classes=10)
    x = data.train.images(np.arange(800))
    assert x.min() == -1 and x.max() == 1 and abs(x.mean()) < 0.01
    assert set(data.train.classes) == set(range(10))
    assert set(latents(count=10, num_classes=0).train.classes) == {0}


def test_generated_samples_of_noise_cannot_be_judged_and_must_not_be_asked_for(tmp_path):
    suite = tmp_path / "noise.yaml"
    suite.write_text(SUITE)
    with pytest.raises(UserError, match=r"noise\.yaml:4.*set metrics\.generate: false"):
        load_plan(suite)
    (cell,) = load_plan(suite, ["metrics.generate=false", "metrics.kid_subset_size=9999"]).cells
    assert cell.cell.data.name == "random_latents"
