"""The files of a suite: all mistakes at once where they are there, a list of what is missing where they are not."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.data.test_parquet import COLOUR, png, write
from tread_bench.cli import hours
from tread_bench.cli.commands.plan import plan as show_plan
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.cell_costs import expected_work
from tread_bench.core.problems import SuiteError
from tread_bench.core.stored.conditions import Numerics
from tread_bench.data.parquet.family import PARQUET, ParquetData
from tread_bench.measure.quality.networks.classifier.network import DIGITS_WEIGHTS
from tread_bench.suite.files import Look, _place_of
from tread_bench.suite.load import load_plan
from tread_bench.suite.plan import plan_table

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
MACS = ("training_macs",)  # of a row of a plan's table


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
    with_files.write_text(SUITE.replace("1:2@0.5", "1:9@0.5"))
    found = problems_of(with_files, look=Look.HEADERS)
    assert [line.split(": ")[0] for line in found] == ["4:16", "4:60", "6:33", "9:35"]
    assert "FID needs a feature network, and none ships for data 'parquet'" in found[0]
    assert "held_out.parquet, row 4: label 7 where data.num_classes allows 0 to 2" in found[1]
    assert "metrics.validation_samples 9: data parquet holds out 5 samples; request fewer" in found[2]
    assert "route 1:9@0.5: the backbone has 4 blocks" in found[3]


def test_the_command_that_trains_the_network_is_the_one_for_this_suite(with_files: Path) -> None:
    overrides = ["data.train=[train.parquet]", "metrics.validation_samples=5"]
    (found, *_) = problems_of(with_files, overrides=overrides, look=Look.HEADERS)
    options = "--set 'data.train=[train.parquet]' --set metrics.validation_samples=5"
    assert f"`tread-bench features {with_files} {options} --out parquet-classifier.safetensors`" in found


def test_a_network_is_trained_on_labelled_images_alone(with_files: Path) -> None:
    told = {}
    for classes in ("num_classes=3", "num_classes=0"):
        found = problems_of(with_files, overrides=[f"data.{classes}"], look=Look.HEADERS)
        told[classes] = next(line for line in found if "FID needs a feature network" in line)
    assert "tread-bench features" in told["num_classes=3"] and "metrics.generate: false" in told["num_classes=0"]
    assert "tread-bench features" not in told["num_classes=0"]


@pytest.mark.parametrize(
    ("settings", "is_told"),
    [
        ([], True),
        (["metrics.generate=false"], False),
        (["metrics.extractor=digits-classifier"], False),
        (["metrics.extractor=trained-classifier"], True),
        (["metrics.extractor=trained-classifier", "metrics.extractor_weights=held_out.parquet"], False),
    ],
)
def test_a_network_is_missing_where_images_are_generated_and_nothing_names_one(
    settings: list[str], is_told: bool, with_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(with_files.parent)
    found = problems_of(with_files, overrides=settings, look=Look.HEADERS)
    assert any("FID needs a feature network" in line for line in found) is is_told


def objects(options: ParquetData, generates: bool) -> list[str]:
    return [f"{options.held_out[0]}, row 3: of another size"]


def test_everything_is_read_by_the_run_alone(with_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ParquetData, "family", replace(PARQUET, check_all=f"{__name__}:objects"))
    assert not any("another size" in line for line in problems_of(with_files, look=Look.NETWORKS))
    found = problems_of(with_files, look=Look.CONTENTS)
    assert [line.split(": ")[0] for line in found if "another size" in line] == ["4:60"]


def test_a_feature_network_of_other_images_is_told_by_the_run(with_files: Path) -> None:
    settings = [f"metrics.extractor_weights={DIGITS_WEIGHTS}", "metrics.validation_samples=5"]
    (_, found) = problems_of(with_files, overrides=settings, look=Look.NETWORKS)
    assert found.startswith(
        f"--set {settings[0]}: {DIGITS_WEIGHTS} is a feature network for 1x8x8 images, the data are"
    )


def test_a_damaged_reference_is_told_by_the_run_at_its_key(with_files: Path) -> None:
    file = with_files.with_name("reference.npz")
    np.savez(file, mu=np.zeros(3), sigma=np.full((3, 3), np.nan))
    settings = [f"metrics.reference={file}", "metrics.validation_samples=5"]
    found = problems_of(with_files, overrides=settings, look=Look.CONTENTS)
    assert any(line.startswith(f"--set {settings[0]}: {file}: ") and "sigma" in line for line in found), found
    file.unlink()
    missing = problems_of(with_files, overrides=settings, look=Look.HEADERS)
    assert any(line.startswith(f"--set {settings[0]}: no such file: {file}") for line in missing), missing


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
    assert [line.split("; ")[0].split(": FID")[0] for line in told] == [
        "4:16",
        f"4:33: no such file: {suite.parent.resolve()}/train.parquet",
        f"4:60: no such file: {suite.parent.resolve()}/held_out.parquet",
    ]


def test_a_run_of_another_suite_can_be_missing_too(suite: Path) -> None:
    suite.write_text(SUITE + "  judged: {evaluate: {row: dense, run: elsewhere}}\n")
    plan = load_plan(suite, look=Look.HEADERS, allows_missing=True)
    assert "elsewhere is not a run folder" in str(plan.missing[-1]) and plan.rows["judged"][0].sources == {}


def test_plan_says_what_is_missing_in_words_and_as_json(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(str(suite), [], as_json=False)
    assert "missing, and needed to run it:" in capsys.readouterr().out
    show_plan(str(suite), ["metrics.generate=false"], as_json=True)
    missing = json.loads(capsys.readouterr().out)["missing"]
    assert len(missing) == 2 and all("no such file" in line for line in missing)


def test_a_missing_file_among_others_is_told_once(with_files: Path) -> None:
    with_files.write_text(SUITE.replace("[train.parquet]", "[gone.parquet, train.parquet]"))
    plan = load_plan(with_files, ["metrics.generate=false"], look=Look.HEADERS, allows_missing=True)
    (missing,) = plan.missing
    assert "no such file: " in str(missing) and "gone.parquet" in str(missing)


def test_a_source_that_does_not_expect_a_missing_file_is_no_crash(
    with_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ParquetData, "family", replace(PARQUET, check_files=f"{__name__}:sizes"))
    with_files.write_text(SUITE.replace("[train.parquet]", "[gone.parquet]"))
    settings = ["metrics.generate=false", "metrics.validation_samples=1"]
    assert len(load_plan(with_files, settings, look=Look.HEADERS, allows_missing=True).missing) == 1


def sizes(options: ParquetData, generates: bool) -> list[str]:
    return [path for path in (*options.train, *options.held_out) if not os.stat(path).st_size]


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


FILES = [
    (("data", "train", 0), "/d/a.parquet"),
    (("data", "train", 1), "/d/a.parquet2"),
    (("data", "held_out", 0), "/h/"),
]


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("/d/a.parquet, row 3: damaged", FILES[0][0]),
        ("/d/a.parquet cannot be read", FILES[0][0]),
        ("/d/a.parquet2, row 3: damaged", FILES[1][0]),
        ("/h, /i: no image files", FILES[2][0]),
        ("/h/cat/1.png: damaged", FILES[2][0]),
        ("/hh/cat/1.png: damaged", ("data", "name")),
        ("data.num_classes 3: too many", ("data", "num_classes")),
    ],
)
def test_a_mistake_is_placed_at_the_file_or_folder_that_its_message_names(message: str, place: object) -> None:
    assert _place_of(message, FILES) == place


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


def test_a_data_root_without_effect_is_told(suite: Path) -> None:
    suite.write_text(f"# Paths may begin with $data_root/.\n{SUITE}")
    (found, *_) = problems_of(suite, data_root=Path("/data"), look=Look.NOT_AT_ALL)
    assert (
        found == "--data-root /data: no path of this suite begins with $data_root/, so it has no effect; leave it out"
    )


# Hours


def test_hours_follow_from_a_stated_step_time(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["training.iterations=1000", "metrics.generate=false", "metrics.validation_samples=1", "seeds=3"]
    show_plan(str(suite), settings, as_json=True, step_time="36")
    plan = json.loads(capsys.readouterr().out)
    dense, routed = plan["rows"]
    assert dense["device_hours"] == pytest.approx(3 * 1000 * 36 / 3_600_000, rel=0.01)  # and a small evaluation
    ratio = routed["mean_train_step_macs"] / dense["mean_train_step_macs"]
    assert routed["device_hours"] == pytest.approx(ratio * dense["device_hours"], rel=0.01)
    assert plan["device_hours"] == pytest.approx(dense["device_hours"] + routed["device_hours"])


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


TIMED = (("dense", [9.0, 10.0], 1.19), ("elsewhere", [30.0], 0.5))  # disturbed


def timed_run(
    monkeypatch: pytest.MonkeyPatch,
    macs: int,
    batch: int,
    seconds: float | None = None,
    timed: Sequence[tuple[str, list[float], float]] = TIMED,
    timed_with: str = "",
) -> None:
    """A run of rows "dense" and "elsewhere", each evaluated in so many seconds: 3 images of 7 MACs, 40 calls of 2."""
    config = {"metrics": {"validation_samples": 5}}  # at 8 noise levels
    records = []
    for row, beside_ms, speedup in timed:
        timing = SimpleNamespace(
            reference_step_times_ms=beside_ms, speedup=speedup, batch=batch, reference_backbone=timed_with
        )
        cost = SimpleNamespace(
            train_step_macs=macs, mean_train_step_macs=2 * macs, evaluated_forward_macs=None, dense_forward_macs=2
        )
        evaluations = [SimpleNamespace(num_samples=3, seconds=seconds)]
        of_cell = {"row": row, "cell": row, "reference": "dense", "timing": timing, "cost": cost}
        records.append(SimpleNamespace(**of_cell, evaluations=evaluations, sampling_macs=7, config=config))
    plan = SimpleNamespace(smoke=False, numerics=Numerics(device="cuda", device_name="a GPU"))
    monkeypatch.setattr(hours, "read_run", lambda path: SimpleNamespace(plan=plan, records=records))


def test_hours_follow_from_the_steps_that_a_run_timed(
    suite: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a name that was measured at their own MACs per second, others at the median of all.

    A step is timed with its routes as written: what the schedule makes of their mean cost is not what took the time.
    """
    macs, batch = 10**6, 4
    timed_run(monkeypatch, macs, batch)
    show_plan(str(suite), ["metrics.generate=false", "seeds=2"], as_json=True, step_time=str(suite.parent))
    rows = json.loads(capsys.readouterr().out)["rows"]
    plan = load_plan(suite, ["metrics.generate=false"], allows_missing=True)
    evaluated = [cells[0].cell for cells in plan.rows.values()]
    for row, cell, step_s in zip(rows, evaluated, (0.010, 0.040 / 3), strict=True):
        total = row["training_macs"] + expected_work(cell).evaluations
        assert row["device_hours"] == pytest.approx(2 * total / (macs * batch / step_s) / 3600)


def test_a_control_takes_the_time_of_the_dense_network_that_it_was_timed_with_over_its_speed_up(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed_run(monkeypatch, macs=10**6, batch=4, timed=[("dense", [20.0, 22.0], 2.0)], timed_with="DiT (depth 12)")
    pace = hours.pace_of(str(suite.parent), load_plan(suite, look=Look.NOT_AT_ALL), [])
    assert pace.by_row["dense"] == pytest.approx(10**6 * 4 / 0.0105)


def test_evaluations_are_counted_at_the_rate_of_those_of_a_run(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed_run(monkeypatch, macs=10**6, batch=4, seconds=0.5)
    plan = load_plan(suite, ["compute.autocast=bfloat16"], look=Look.NOT_AT_ALL)
    pace = hours.pace_of(str(suite.parent), plan, [])
    macs_per_s = (3 * 7 + 5 * 8 * 2) / 0.5
    assert pace.evaluation == pytest.approx(macs_per_s)
    table = [dict.fromkeys(MACS, 0) | {"row": row} for row in plan.rows]
    works = [expected_work(cells[0].cell) for cells in plan.rows.values()]
    seconds = sum(work.evaluations for work in works) / macs_per_s
    assert hours.add_hours(table, plan, pace) == pytest.approx(seconds * len(plan.cells) / len(works) / 3600)
    total, differs, _ = hours.hours_in_words(1.0, plan, pace)
    assert "Evaluations are counted at the MACs per second of those there" in total
    assert differs.endswith("its steps take another time: autocast none, here bfloat16.")


@pytest.mark.parametrize("compute", [["compute.autocast=bfloat16"], ["compute.compile=true"]])
def test_evaluations_of_another_rate_than_training_are_left_out(compute: list[str], suite: Path) -> None:
    """They compute in float32 without compilation."""
    found = []
    for settings in ([], compute):
        plan = load_plan(suite, settings, look=Look.NOT_AT_ALL)
        table = [dict.fromkeys(MACS, 0) | {"row": row} for row in plan.rows]
        hours_in_all = hours.add_hours(table, plan, hours.Pace({}, 1.0, "stated"))
        found.append((hours_in_all, hours.hours_in_words(1.0, plan, hours.Pace({}, 1.0, "stated"))[0]))
    (alike, told_alike), (other, told_other) = found
    assert alike > 0 and "counted at the same MACs per second" in told_alike
    assert other == 0 and "float32 without compilation" in told_other


def test_rows_that_a_run_did_not_time_are_named(suite: Path) -> None:
    plan = load_plan(suite, look=Look.NOT_AT_ALL)
    total, ideal = hours.hours_in_words(1234.5, plan, hours.Pace({}, 1.0, "stated"))
    assert total.startswith("About 1,234 device-hours")
    assert ideal.startswith("Rows with routes are counted at the ideal speed-up")
    total, others = hours.hours_in_words(1234.5, plan, hours.Pace({"dense": 1.0}, 1.0, "measured"))
    assert total.startswith("About 1,234 device-hours") and others.startswith("Not timed there: routed. ")


@pytest.mark.parametrize("given", ["0", "-3", "nan", "inf", "nowhere"])
def test_what_is_no_step_time_is_refused(given: str, suite: Path) -> None:
    with pytest.raises(UserError, match=f"--step-time {given}: "):
        show_plan(str(suite), [], as_json=True, step_time=given)


def test_a_data_path_that_is_not_utf_8_is_refused_with_the_path(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "suite.yaml").write_text(SUITE)
    with pytest.raises(UserError, match=r"caf\\udce9/train\.parquet': its name is not UTF-8, .*; rename"):
        load_plan(folder / "suite.yaml")
