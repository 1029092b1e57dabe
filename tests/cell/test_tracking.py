"""Curves for TensorBoard: what a cell writes while it trains, and after a resume."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from PIL import Image

from tests.cell.test_step import make_cell
from tests.command_line import tread_bench
from tests.toy_suite import FEW_SAMPLES, toy_suite, write_suite
from tread_bench.cell.tracking import Curves
from tread_bench.core.stored.records import Evaluation
from tread_bench.runner.folder import MADE

accumulators = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="the extra `track` is not installed"
)


def written(folder):
    found = accumulators.EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return found


def curve(folder, tag: str) -> list[tuple[int, float]]:
    return [(event.step, pytest.approx(event.value)) for event in written(folder).Scalars(tag)]


def evaluation(iteration: int, **figures) -> Evaluation:
    return Evaluation(iteration=iteration, train_seconds=1, validation_loss=0.5, validation_loss_per_time={}, **figures)


@pytest.fixture
def cell():
    return make_cell(training={"iterations": 20, "batch": 8, "learning_rate": 1e-3, "warmup": 4})


def test_losses_rates_and_speed_are_noted_where_a_loss_is_new(cell, tmp_path):
    seconds = count(step=2)
    curves = Curves(cell, tmp_path, clock=lambda: next(seconds))
    for done, loss in [(1, None), (2, 0.9), (3, 0.9), (6, 0.7)]:
        curves.progress(done, loss)
    curves.close()
    assert curve(tmp_path, "train/loss") == [(2, 0.9), (6, 0.7)]
    assert curve(tmp_path, "train/learning_rate") == [(2, 0.75e-3), (6, 1e-3)]  # of the next step: warmed up over 4
    assert curve(tmp_path, "train/images_per_s") == [(2, 8 / 2), (6, 4 * 8 / 4)]


def test_evaluations_have_their_figures_and_their_grid(cell, tmp_path):
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    (tmp_path / "samples").mkdir()
    Image.fromarray(pixels).save(tmp_path / "samples" / "9.png")
    curves = Curves(cell, tmp_path)
    curves.evaluation(evaluation(9, fid=12.5, figures={"fid_infinity": 11.0}, samples="samples/9.png"))
    curves.close()
    for tag, value in {"validation_loss": 0.5, "fid": 12.5, "fid_infinity": 11.0}.items():
        assert curve(tmp_path, f"evaluation/{tag}") == [(9, value)]
    (image,) = written(tmp_path).Images("samples")
    assert (image.step, image.width, image.height) == (9, 6, 4)


def test_after_a_resume_curves_go_on_and_hide_what_was_lost(cell, tmp_path):
    first = Curves(cell, tmp_path)
    for done in range(1, 9):
        first.progress(done, 1 / done)
    first.close()  # as a killed process: the checkpoint was that of iteration 5
    second = Curves(cell, tmp_path)
    for done in range(6, 9):
        second.progress(done, 10 / done)
    second.close()
    assert curve(tmp_path, "train/loss") == [(k, 1 / k) for k in range(1, 6)] + [(k, 10 / k) for k in range(6, 9)]


def test_a_run_writes_them_where_that_is_requested_and_changes_no_figure(tmp_path):
    suite = write_suite(tmp_path, toy_suite(20, 10, seeds=1, metrics=FEW_SAMPLES, pairs=0, at="10, "))
    out = tmp_path / "run"
    done = tread_bench("run", suite, "--out", out, "--track", "tensorboard", "--rows", "dense")
    assert done.returncode == 0, done.stderr
    (cell,) = out.glob("cells/*")
    assert [step for step, _ in curve(cell, "evaluation/fid")] == [10, 20]
    assert [step for step, _ in curve(cell, "train/loss")] == [*range(1, 21)]
    names = [path.relative_to(cell).as_posix() for path in cell.rglob("*") if path.is_file()]
    assert all(MADE.fullmatch(name) for name in names), names
