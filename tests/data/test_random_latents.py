from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch

from tread_bench.core.errors import UserError
from tread_bench.core.numbers import draws
from tread_bench.data.open import open_data
from tread_bench.data.random_latents.family import RandomLatentsData
from tread_bench.data.source import from_uint8
from tread_bench.suite.load import load_plan

SUITE = """\
name: noise
base:
  backbone: DiT-S/2
  data: random_latents
  training: {iterations: 1}
"""


def latents(**changes):
    return open_data(RandomLatentsData(name="random_latents", **changes))


def test_a_sample_depends_on_its_index_alone():
    few, many = latents(count=50), latents(count=500)
    both = torch.cat([few.train.images(np.arange(40)), few.held_out.images(np.arange(10))])
    index = np.random.default_rng(0).permutation(50)
    assert torch.equal(both[index], many.train.images(index))
    assert torch.equal(few.train.labels(np.arange(40)), many.train.labels(np.arange(40)))


def test_the_values_are_those_of_a_table_drawn_at_once():
    table = (draws.uniform(0, "random latents", 0, 50, (4, 32, 32)) * 256).astype(np.uint8)
    assert torch.equal(latents(count=50).train.images(np.arange(40)), from_uint8(torch.from_numpy(table[:40])))


def test_as_many_as_imagenet_has_twice_over_take_no_memory_but_their_labels():
    tracemalloc.start()
    data = latents(count=3_202_917)
    assert len(data.train) == 2_562_334
    assert data.train.images(np.array([0, 2_562_333])).shape == (2, 4, 32, 32)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1.01 * 8 * 3_202_917  # bytes of int64 labels


def test_values_fill_the_range_and_labels_the_classes():
    data = latents(count=1000, num_classes=10)
    x = data.train.images(np.arange(800))
    assert x.min() == -1 and x.max() == 1 and abs(x.mean()) < 0.01
    assert set(data.train.classes.tolist()) == set(range(10))
    assert set(latents(count=10, num_classes=0).train.classes) == {0}


def test_generated_samples_of_noise_cannot_be_judged_and_must_not_be_asked_for(tmp_path):
    suite = tmp_path / "noise.yaml"
    suite.write_text(SUITE)
    with pytest.raises(UserError, match=r"noise\.yaml:4.*set metrics\.generate: false"):
        load_plan(suite)
    (cell,) = load_plan(suite, ["metrics.generate=false", "metrics.kid_subset_size=9999"]).cells
    assert cell.cell.data.name == "random_latents"
