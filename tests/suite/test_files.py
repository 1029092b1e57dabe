"""The files of a suite: all mistakes at once where they are there, a list of what is missing where they are not."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.data.test_parquet import COLOUR, png, write
from tread_bench.cli import hours
from tread_bench.cli.commands.plan import plan as show_plan
from tread_bench.cli.costs import plan_table
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.costs import expected_work
from tread_bench.core.problems import SuiteError
from tread_bench.core.stored.conditions import Numerics
from tread_bench.data.parquet.family import PARQUET, ParquetData
from tread_bench.measure.quality.networks.classifier.network import DIGITS_WEIGHTS
from tread_bench.suite.files import Look, _place_of
from tread_bench.suite.load import load_plan

SUITE = """\
name: mine
base:
  backbone: {name: DiT, depth: 4, hidden: 8, heads: 1, patch: 2}
  data: {name: parquet, train: [train.parquet], held_out: [held_out.parquet], image_size: 4, num_classes: 3}
  training: {iterations: 10, batch: 2}
  metrics: {validation_samples: 9, similarity_samples: 5}
rows:
  dense: {}
  routed: {method: tread, routes: 1:2@0.5}
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mine.yaml").write_text(SUITE)
    return tmp_path / "mine.yaml"


@pytest.fixture
def with_files(suite: Path) -> Path:
    for name, labels in (("train", [0, 1, 2, 0, 1]), ("held_out", [0, 1, 2, 0, 7])):
        write(suite.with_name(f"{name}.parquet"), [png(image) for image in COLOUR], labels)
    return suite


def problems_of(path: Path, **options: object) -> list[str]:
    with pytest.raises(SuiteError) as caught:
        load_plan(path, **options)
    return [str(problem).splitlines()[0].replace(f"{path}:", "") for problem in caught.value.problems]


# Mistakes


def test_mistakes_of_settings_files_and_labels_are_told_at_once(with_files: Path) -> None:
    with_files.write_text(f"{SUITE}  wrong: {{method: tread, routes: 1:9@0.5}}\n")
    found = problems_of(with_files, look=Look.HEADERS)
    assert [line.split(": ")[0] for line in found] == ["4:16", "4:60", "6:33", "10:34"]
    assert "FID needs a feature network, and none ships for data 'parquet'" in found[0]
    assert "held_out.parquet, row 4: label 7 where data.num_classes allows 0 to 2" in found[1]
    assert "metrics.validation_samples 9: data parquet holds out 5 samples; request fewer" in found[2]
    assert "route 1:9@0.5: the backbone has 4 blocks" in found[3]


@pytest.mark.parametrize(
    ("settings", "way_out"),
    [
        ([], "tread-bench features"),
        (["data.num_classes=0"], "metrics.generate: false"),  # it is trained on labelled images
        (["metrics.generate=false"], ""),
        (["metrics.extractor=digits-classifier"], ""),
        (["metrics.extractor=trained-classifier"], "tread-bench features"),
        (["metrics.extractor=trained-classifier", "metrics.extractor_weights=held_out.parquet"], ""),
    ],
)
def test_a_network_is_missing_where_images_are_generated_and_nothing_names_one(
    settings: list[str], way_out: str, with_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(with_files.parent)
    found = problems_of(with_files, overrides=settings, look=Look.HEADERS)
    told = [line for line in found if "FID needs a feature network" in line]
    assert bool(told) is bool(way_out) and all(way_out in line for line in told)
    assert not any("tread-bench features" in line for line in told) or way_out.startswith("tread-bench")


def objects(options: ParquetData, generates: bool) -> list[str]:
    return [f"{options.held_out[0]}, row 3: of another size"]


def test_everything_is_read_by_the_run_alone(with_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ParquetData, "family", replace(PARQUET, check_all=f"{__name__}:objects"))
    assert not any("another size" in line for line in problems_of(with_files, look=Look.NETWORKS))
    found = problems_of(with_files, look=Look.CONTENTS)
    assert [line.split(": ")[0] for line in found if "another size" in line] == ["4:60"]


def test_networks_and_references_that_do_not_fit_are_told_by_the_run_at_their_keys(with_files: Path) -> None:
    file = with_files.with_name("reference.npz")
    np.savez(file, mu=np.zeros(3), sigma=np.full((3, 3), np.nan))
    settings = [f"metrics.extractor_weights={DIGITS_WEIGHTS}", f"metrics.reference={file}"]
    found = problems_of(with_files, overrides=[*settings, "metrics.validation_samples=5"], look=Look.NETWORKS)
    rule = f"{DIGITS_WEIGHTS} is a feature network for 1x8x8 images, the data are"
    assert any(line.startswith(f"--set {settings[0]}: {rule}") for line in found), found
    assert any(line.startswith(f"--set {settings[1]}: {file}: ") and "sigma" in line for line in found), found
    file.unlink()
    missing = problems_of(with_files, overrides=settings, look=Look.HEADERS)
    assert any(line.startswith(f"--set {settings[1]}: no such file: {file}") for line in missing), missing


def test_a_class_without_a_sample_is_told_at_the_number_of_classes(with_files: Path) -> None:
    write(with_files.with_name("held_out.parquet"), [png(image) for image in COLOUR], [0, 1, 2, 0, 1])
    with_files.write_text(SUITE.replace("num_classes: 3", "num_classes: 4").replace("samples: 9", "samples: 5"))
    (_, found) = problems_of(with_files, look=Look.HEADERS)
    assert found.startswith("4:107: data.num_classes 4: no training sample has class 3, and images are generated")


# What is missing


def test_a_plan_of_missing_files_lists_them_with_their_places(suite: Path) -> None:
    plan = load_plan(suite, look=Look.HEADERS, allows_missing=True)
    assert len(plan.cells) == 2
    told = [str(problem).splitlines()[0].replace(f"{suite}:", "") for problem in plan.missing]
    assert [line.split(": ")[0] for line in told] == ["4:16", "4:33", "4:60"]
    assert f"no such file: {suite.parent.resolve()}/train.parquet" in told[1]
    assert problems_of(suite, look=Look.HEADERS) == told


def test_a_run_of_another_suite_can_be_missing_too(suite: Path) -> None:
    suite.write_text(SUITE + "  judged: {evaluate: {row: dense, run: elsewhere}}\n")
    plan = load_plan(suite, look=Look.HEADERS, allows_missing=True)
    assert "elsewhere is not a run folder" in str(plan.missing[-1]) and plan.rows["judged"][0].sources == {}


def test_what_is_there_and_no_folder_or_no_file_is_not_called_missing(suite: Path) -> None:
    (suite.parent / "train.parquet").symlink_to("/dev/null")
    (suite.parent / "held_out.parquet").mkdir()
    plan = load_plan(suite, ["metrics.generate=false"], look=Look.HEADERS, allows_missing=True)
    device, folder = map(str, plan.missing)
    assert "/dev/null is not a file; correct the path" in device
    assert "no such file: " in folder and "held_out.parquet/*{.parquet,.pq}; correct the path" in folder
    settings = [f"data={{name: image_folder, train: [{suite}], image_size: 4, num_classes: 3}}"]
    settings += ["metrics.generate=false", "metrics.validation_samples=1"]
    (told,) = problems_of(suite, overrides=settings, look=Look.HEADERS)
    assert "mine.yaml is not a folder; correct the path" in told


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("/d/a.parquet, row 3: damaged", ("data", "train", 0)),
        ("/d/a.parquet2, row 3: damaged", ("data", "train", 1)),
        ("data.num_classes 3: too many", ("data", "num_classes")),
    ],
)
def test_a_mistake_is_placed_at_the_file_or_folder_that_its_message_names(message: str, place: object) -> None:
    paths = {"/d/a.parquet": ("train", 0), "/d/a.parquet2": ("train", 1), "/h/": ("held_out", 0)}
    assert _place_of(message, [(("data", *loc), path) for path, loc in paths.items()]) == place


# Where paths start


def test_data_root_is_the_working_directory_or_what_the_option_says(suite: Path, monkeypatch) -> None:
    suite.write_text(SUITE.replace("[train.parquet]", "[$data_root/a/b.parquet, c.parquet]"))
    monkeypatch.chdir("/")
    for root, first in ((None, "/a/b.parquet"), (Path("/data"), "/data/a/b.parquet")):
        plan = load_plan(suite, data_root=root, look=Look.NOT_AT_ALL)
        assert plan.cells[0].cell.data.train == (first, str(suite.parent.resolve() / "c.parquet"))
    override = ["data.train=[$data_root/d.parquet, e.parquet]"]
    plan = load_plan(suite, override, data_root=Path("/data"), look=Look.NOT_AT_ALL)
    assert plan.cells[0].cell.data.train == ("/data/d.parquet", "/e.parquet")


# Hours


def test_evaluations_of_tuning_count(suite: Path) -> None:
    """Three candidates with a seed each are three evaluations more of each row."""
    pace = hours.Pace({}, math.inf, "stated", evaluation=1.0)
    found = []
    for settings in ([], ["tune={candidates: [1e-4, 1e-3, 1e-2], seeds: 1, generate: true}"]):
        plan = load_plan(suite, settings, look=Look.NOT_AT_ALL)
        found.append(hours.add_hours(plan_table(plan), plan, pace) * 3600)
    works = [expected_work(cells[0].cell) for cells in load_plan(suite, look=Look.NOT_AT_ALL).rows.values()]
    assert found[0] == pytest.approx(sum(work.evaluations for work in works))
    assert found[1] == pytest.approx(4 * found[0])


def timed(row: str, beside_ms: list[float], speedup: float, backbone: str = "") -> SimpleNamespace:
    """A record: 4 images of 10^6 MACs a step; 3 generated images of 7 MACs and 40 calls of 2 in half a second."""
    timing = SimpleNamespace(reference_step_times_ms=beside_ms, speedup=speedup, batch=4, reference_backbone=backbone)
    cost = SimpleNamespace(
        train_step_macs=10**6, mean_train_step_macs=2 * 10**6, evaluated_forward_macs=None, dense_forward_macs=2
    )
    of_cell = {"row": row, "cell": row, "reference": "dense", "timing": timing, "cost": cost, "sampling_macs": 7}
    evaluations = [SimpleNamespace(num_samples=3, seconds=0.5)]
    return SimpleNamespace(**of_cell, evaluations=evaluations, config={"metrics": {"validation_samples": 5}})


def test_hours_follow_from_the_steps_and_evaluations_that_a_run_timed(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a name that was measured at their own MACs per second, others at the median of all.

    A step is timed with its routes as written: what the schedule makes of their mean cost is not what took the time. A
    control takes the time of the dense network that it was timed with over its speed-up; dense itself has none.
    """
    records = [timed("dense", [9, 10], 1.19), timed("elsewhere", [30], 0.5), timed("control", [20, 22], 2, "DiT")]
    of_run = SimpleNamespace(smoke=False, numerics=Numerics(device="cuda", device_name="a GPU"))
    monkeypatch.setattr(hours, "read_run", lambda path: SimpleNamespace(plan=of_run, records=records))
    plan = load_plan(suite, ["compute.autocast=bfloat16", "seeds=2"], look=Look.NOT_AT_ALL)
    table = plan_table(plan)
    pace = hours.pace_of(str(suite.parent), plan, table)
    steps_s = {"dense": 0.010, "elsewhere": 0.020, "control": 0.0105}
    assert pace.by_row == pytest.approx({row: 4 * 10**6 / step_s for row, step_s in steps_s.items()})
    assert pace.evaluation == pytest.approx((3 * 7 + 5 * 8 * 2) / 0.5)

    total = hours.add_hours(table, plan, pace)
    for row, rate in zip(table, (4 * 10**6 / 0.010, 4 * 10**6 / 0.0105), strict=True):
        evaluations = expected_work(plan.rows[row["row"]][0].cell).evaluations / pace.evaluation
        assert row["device_hours"] == pytest.approx(2 * (row["training_macs"] / rate + evaluations) / 3600)
    assert total == pytest.approx(sum(row["device_hours"] for row in table))
    told = " ".join(hours.hours_in_words(1234.5, plan, pace))
    for words in ("About 1,234 device-hours", "of those there", "none, here bfloat16.", "Not timed there: routed."):
        assert words in told


@pytest.mark.parametrize("compute", ["compute.autocast=bfloat16", "compute.compile=true"])
def test_evaluations_of_another_rate_than_training_are_said_to_take_longer(compute: str, suite: Path) -> None:
    pace = hours.Pace({}, 1.0, "stated")
    alike, other = (load_plan(suite, settings, look=Look.NOT_AT_ALL) for settings in ([], [compute]))
    table = [{"row": row, "training_macs": 0} for row in alike.rows]
    works = [expected_work(cells[0].cell).evaluations * len(cells) for cells in alike.rows.values()]
    for plan in (alike, other):
        assert hours.add_hours(table, plan, pace) == pytest.approx(sum(works) / 3600)
    assert ["take longer" in hours.hours_in_words(1.0, plan, pace)[0] for plan in (alike, other)] == [False, True]


@pytest.mark.parametrize("given", ["0", "nan", "inf", "nowhere"])
def test_what_is_no_step_time_is_refused(given: str, suite: Path) -> None:
    with pytest.raises(UserError, match=f"--step-time {given}: "):
        show_plan(str(suite), [], as_json=True, step_time=given)


def test_a_data_path_that_is_not_utf_8_is_refused_with_the_path(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "suite.yaml").write_text(SUITE)
    with pytest.raises(UserError, match=r"caf\\udce9/train\.parquet': its name is not UTF-8, .*; rename"):
        load_plan(folder / "suite.yaml")
