from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from tests.model.methods.subjects import network_of
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.metrics import extractors
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.costs import cell_cost
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure import evaluation
from tread_bench.measure.evaluation import Evaluator
from tread_bench.measure.quality.png import grid_png

METRICS = {"num_samples": 16, "validation_samples": 8, "kid_subset_size": 16, "kid_subsets": 2}
OF_SAMPLES = ("fid", "sfid", "kid", "inception_score", "precision", "recall", "protocol", "samples")


@pytest.fixture
def evaluate(digits, tmp_path):
    def run(device="cpu", evaluates=None, **metrics):
        cell = Cell(
            evaluate=evaluates,
            backbone={"name": "DiT", "depth": 2, "hidden": 16, "heads": 2, "patch": 4},
            training={"iterations": 1},
            sampling={"steps": 1},
            metrics={**METRICS, **metrics},
        )
        evaluator = Evaluator(cell, digits, build_objective(cell.objective), tmp_path, device=device)
        evaluator.check()
        return evaluator, evaluator(network_of(cell), 1, 0.0, seed=0)

    return run


def test_without_generation_the_losses_are_the_same_and_nothing_is_said_of_samples(evaluate, tmp_path):
    evaluator, without = evaluate(generate=False, kid_subset_size=9999)
    assert without.num_samples == 0 and evaluator.sampling_macs() is None
    assert [getattr(without, figure) for figure in OF_SAMPLES] == [None] * len(OF_SAMPLES)
    assert list(tmp_path.iterdir()) == []
    evaluator, with_samples = evaluate()
    assert with_samples.num_samples == 16 and with_samples.fid is not None and evaluator.sampling_macs()
    assert with_samples.validation_loss_per_time == without.validation_loss_per_time


def test_a_grid_of_training_images_is_beside_the_samples(evaluate, digits, tmp_path):
    _, found = evaluate()
    expected = grid_png(digits.train.uint8(np.linspace(0, len(digits.train) - 1, 10).astype(np.int64)))
    assert (tmp_path / found.real_samples).read_bytes() == expected
    assert found.real_samples_sha256 == hashlib.sha256(expected).hexdigest()


def test_settings_of_the_protocol_reach_the_figures(evaluate, digits, tmp_path):
    images = digits.train.uint8(np.arange(0, 1400, 2)).permute(0, 2, 3, 1).numpy()
    np.savez(tmp_path / "reference.npz", arr_0=images, arr_1=digits.train.classes[:1400:2])
    settings = {"num_samples": 30, "also": [{"name": "fid_infinity", "smallest": 12, "points": 5}]}
    _, plain = evaluate(**settings)
    _, with_reference = evaluate(**settings, reference=str(tmp_path / "reference.npz"))
    _, as_adm = evaluate(**settings, protocol="adm")

    # Each is a protocol of its own, and changes what it says.
    found = [plain, with_reference, as_adm]
    assert len({one.protocol for one in found}) == 3
    assert len({one.fid for one in found}) == 2 and as_adm.fid == plain.fid
    assert with_reference.inception_score == plain.inception_score != as_adm.inception_score
    assert plain.samples_sha256 == as_adm.samples_sha256
    assert with_reference.protocol_details["reference_images"] == 700
    assert all(set(one.figures) == {"fid_infinity"} and one.sfid is None for one in found)


@pytest.mark.parametrize(
    ("count", "subset", "told"),
    [
        (50, 100, "50 samples: it needs 100 or more"),
        (2000, 1500, "1,438 reference images: it needs 1,500 or more"),
    ],
)
def test_too_few_images_are_an_error_before_training(evaluate, count, subset, told):
    with pytest.raises(UserError, match=f"metric kid: {told}"):
        evaluate(num_samples=count, kid_subset_size=subset)


def test_a_reference_without_images_or_statistics_of_this_network_is_an_error_before_training(evaluate, tmp_path):
    np.savez(tmp_path / "other.npz", mu=np.zeros(2048), sigma=np.eye(2048))
    with pytest.raises(
        UserError, match=r"of inception, none of feature network digits-classifier, and no images; give"
    ):
        evaluate(reference=str(tmp_path / "other.npz"))


def test_spatial_fid_is_measured_where_the_network_has_such_features(evaluate, monkeypatch):
    """Here they are its features in another order, of which the distance is the same."""
    _, without = evaluate()
    builder = "tests.measure.test_extractor_contract:right_spatial"
    with_spatial = replace(extractors.find("digits-classifier"), has_spatial=True, builder=builder)
    monkeypatch.setattr(type(with_spatial.options()), "family", with_spatial)
    _, found = evaluate()
    assert found.sfid == pytest.approx(found.fid, rel=1e-9)
    assert found.fid == without.fid and without.sfid is None


def test_what_training_has_cost_is_recorded_by_the_cell_that_trained(evaluate):
    evaluator, own = evaluate(generate=False)
    _, of_others = evaluate(generate=False, evaluates={"row": "dense"})
    assert own.training_macs == cell_cost(evaluator.cell).train_step_macs * evaluator.cell.training.batch
    assert of_others.training_macs is None


def test_the_number_of_images_is_the_number_requested(evaluate, monkeypatch):
    made = evaluation.generate
    monkeypatch.setattr(evaluation, "generate", lambda *arguments, **turn: islice(made(*arguments, **turn), 1))
    with pytest.raises(ValueError, match=r"12 images were generated where metrics\.num_samples is 16"):
        evaluate(batch=12)


@pytest.mark.gpu
def test_features_on_a_gpu_give_the_same_figures_but_for_rounding(evaluate):
    (_, here), (evaluator, there) = evaluate(), evaluate(device="cuda")
    assert evaluator.extractor.device.type == "cuda"
    for figure in ("fid", "kid", "inception_score", "precision", "recall"):
        assert getattr(there, figure) == pytest.approx(getattr(here, figure), rel=1e-3, abs=1e-5)
