"""Cells that judge what others have trained, and `sample`, on one small run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from tests.run_folders import begun, new_folder, planned, quiet, train_all
from tread_bench.cell.run import run_cell
from tread_bench.cli.app import app
from tread_bench.core.problems import SuiteError
from tread_bench.core.stored.documents import WeightsRef
from tread_bench.core.stored.files import OutputError
from tread_bench.services.samples import SampledCell

BASE = """\
name: toy
seeds: [1]
base:
  backbone: {name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}
  training: {iterations: 8, batch: 8, learning_rate: 1e-2, snapshots: [0.25]}
  sampling: {steps: 3}
  metrics: {num_samples: 16, validation_samples: 8, similarity_samples: 4, kid_subset_size: 8, kid_subsets: 2}
timing: {pairs: 0}
rows:
  dense: {}
  tread: {method: tread, routes: "1:2@0.5"}
"""
SUITE = f"""{BASE}
  unguided: {{evaluate: tread}}
  early: {{evaluate: {{row: tread, iteration: 0.25}}}}
  cfg: {{matrix: {{evaluate: [dense, tread], sampling.guidance_scale: [1, 2]}}, sampling: {{guidance: cfg}}}}
  sparse: {{evaluate: tread, sampling: {{guidance: {{name: sparse, snapshot: 2}}, guidance_scale: 2}}}}
  small: {{backbone.depth: 2}}
  by-small:
    matrix: {{sampling.guidance_scale: [0, 2]}}
    evaluate: tread
    sampling: {{guidance: {{name: autoguidance, row: small}}}}
  by-dense: {{evaluate: tread, sampling: {{guidance: {{name: autoguidance, row: dense}}, guidance_scale: 2}}}}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return planned(tmp_path_factory.mktemp("suite"), SUITE)


@pytest.fixture(scope="module")
def folder(plan, tmp_path_factory):
    """The run folder after all cells, in this process."""
    return train_all(begun(tmp_path_factory.mktemp("evaluate") / "run", plan, SUITE), plan)


def outcome(plan, folder, row):
    (cell,) = plan.rows[row]
    return folder.record(cell.id)


def grid(folder, record):
    """The file with samples of the last evaluation."""
    return (folder.cell(record.cell) / record.last.samples).read_bytes()


def figures(record):
    """Of the last evaluation, all that does not depend on where and when."""
    return record.last.model_dump(exclude={"train_seconds", "seconds", "training_macs"})


def test_an_evaluating_cell_names_its_sources_and_its_unguided_reference(plan):
    rows = {name: cells[0] for name, cells in plan.rows.items()}
    tread, guided = rows["tread"].id, rows["sparse"]
    assert guided.sources["network"] == WeightsRef(cell=tread, iteration=8)
    assert guided.sources["weak"] == WeightsRef(cell=tread, iteration=2)
    assert guided.reference == rows["unguided"].id == rows["unguided"].reference
    assert rows["cfg evaluate=dense guidance_scale=2"].reference == rows["dense"].id
    assert rows["by-dense"].sources["weak"].cell == rows["dense"].id
    assert rows["early"].reference == rows["early"].id
    assert (guided.cell.method.name, str(guided.cell.routes[0]), guided.cell.metrics.at) == ("tread", "1:2@0.5", (8,))
    assert [name for name, cell in rows.items() if cell.cell.trains] == ["dense", "tread", "small"]


GUIDED_BY = "sampling: {guidance_scale: 2, guidance:"


@pytest.mark.parametrize(
    ("row", "place", "message"),
    [
        ("evaluate: tred", "12:9", "unknown trained row 'tred'; did you mean 'tread'?"),
        ("evaluate: {row: tread, iteration: 3}", "12:43", "row 'tread' keeps weights only of iteration 2, 8"),
        ("evaluate: tread, method: dense", "12:26", "method has no effect: this row takes over what row 'tread'"),
        ("evaluate: tread, objective: edm", "12:37", "objective: row 'tread', which this one evaluates, was trained"),
        ("evaluate: {row: tread, run: nowhere}", "12:37", "nowhere is not a run folder"),
        ("evaluate: {row: tread, options: {detach: true}}", "12:50", "no option changes the evaluation alone"),
        (f"{GUIDED_BY} {{name: autoguidance, snapshot: 2}}}}", "12:80", "row with evaluate"),
        (f"evaluate: tread, {GUIDED_BY} {{name: autoguidance, snapshot: 8}}}}", "12:97", "before the evaluated"),
        (f"{GUIDED_BY} {{name: sparse, blocks: 2:9}}}}", "12:72", "the backbone has 4 blocks"),
        (f"{GUIDED_BY} sparse}}", "12:39", "has no routes: add blocks: 2:8"),
        (f"{GUIDED_BY} {{name: cfg, interval: [2, 3]}}}}", "12:71", "none of the sampler's times lies in it"),
        ("metrics: {routed_rates: [0.5, 0.1], routed_blocks: 1:2}", "12:33", "must ascend"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path, row, place, message):
    with pytest.raises(SuiteError) as caught:
        planned(tmp_path, f"{BASE}  new: {{{row}}}\n")
    text = str(caught.value)
    assert message in text
    assert f"toy.yaml:{place}" in text


@pytest.mark.parametrize("row", ["unguided", "cfg evaluate=tread guidance_scale=1"])
def test_without_guidance_an_evaluating_cell_finds_what_its_source_found_bit_for_bit(row, plan, folder):
    source, again = (outcome(plan, folder, one) for one in ("tread", row))
    assert (figures(again), again.sampling_macs) == (figures(source), source.sampling_macs)
    assert again.timing is None and again.train_loss == []
    assert grid(folder, source) == grid(folder, again)


BUDGETS = f"""{BASE}
  elit: {{method: {{name: elit, groups: 2, heads: 2}}, routes: "1:2@0.75", metrics: {{ema: false}}}}
  full: {{evaluate: elit}}
  budget: {{matrix: {{evaluate.options.budget: [0.25, 0.5]}}, evaluate: {{row: elit}}}}
  guided: {{evaluate: {{row: elit, options: {{budget: 0.5}}}}, sampling: {{guidance: cfg, guidance_scale: 2}}}}
"""


def test_one_training_is_evaluated_with_other_options_of_its_method(tmp_path):
    for options, message in (("groups: 1", "of method elit, only budget"), ("budget: 1.5", "less than or equal to 1")):
        with pytest.raises(SuiteError, match=message):
            planned(tmp_path, f"{BUDGETS}  new: {{evaluate: {{row: elit, options: {{{options}}}}}}}\n")
    plan = planned(tmp_path, BUDGETS)
    rows = {name: cells[0] for name, cells in plan.rows.items()}
    less, half, guided = (rows[name] for name in ("budget budget=0.25", "budget budget=0.5", "guided"))
    assert [cell.cell.method.budget for cell in (rows["full"], less, half, guided)] == [1, 0.25, 0.5, 0.5]
    assert {cell.reference for cell in (rows["full"], less, half, guided)} == {rows["full"].id}
    assert all(
        cell.cell.training == rows["elit"].cell.training and not cell.cell.trains for cell in (less, half, guided)
    )

    folder = begun(tmp_path / "run", plan, BUDGETS)
    for cell in (rows["elit"], rows["full"], less, half):
        run_cell(folder.root, cell.id, 1, quiet)
    trained, full, quarter, middle = (
        outcome(plan, folder, cell.row) for cell in (rows["elit"], rows["full"], less, half)
    )
    assert figures(full) == figures(trained)
    assert len({record.last.validation_loss for record in (full, quarter, middle)}) == 3
    assert quarter.sampling_macs < middle.sampling_macs < full.sampling_macs == trained.sampling_macs
    assert {record.cost.train_step_macs for record in (full, quarter, middle)} == {trained.cost.train_step_macs}

    sampled = SampledCell.open(folder.root, less.id, 2)
    assert sampled.macs == quarter.sampling_macs


def test_every_row_is_done_and_guidance_costs_its_second_branch(plan, folder):
    records = {row: outcome(plan, folder, row) for row in plan.rows}
    assert {row: (r.status, r.reason) for row, r in records.items()} == dict.fromkeys(records, ("done", ""))
    plain = records["unguided"].sampling_macs
    assert plain == 3 * records["dense"].cost.dense_forward_macs
    assert records["cfg evaluate=tread guidance_scale=2"].sampling_macs == 2 * plain
    assert records["by-dense"].sampling_macs == 2 * plain
    assert records["sparse"].sampling_macs < 2 * plain
    assert len({record.last.protocol for record in records.values()}) == 1

    # A smaller row guides; at scale 0 it alone is left.
    weak, alone, guided = (records[row] for row in ("small", *(f"by-small guidance_scale={s}" for s in (0, 2))))
    assert guided.sampling_macs == plain + weak.sampling_macs and weak.sampling_macs < plain
    assert grid(folder, alone) == grid(folder, weak) and alone.last.fid == weak.last.fid
    assert grid(folder, guided) not in (grid(folder, weak), grid(folder, records["tread"]))


def copied(folder, tmp_path):
    shutil.copytree(folder.root, tmp_path / "run")
    return new_folder(tmp_path / "run")


def judged_again(folder, cell_id):
    (folder.cell(cell_id) / "record.json").unlink()
    return run_cell(folder.root, cell_id, 1, quiet)


def test_damaged_weights_are_refused(plan, folder, tmp_path):
    folder = copied(folder, tmp_path)
    (source,), (again,) = plan.rows["tread"], plan.rows["unguided"]
    weights = folder.cell(source.id) / "weights" / "8.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    record = judged_again(folder, again.id)
    assert record.status == "failed" and "its sha256 is not the recorded one" in record.reason
    weights.unlink()
    assert "cannot be read" in judged_again(folder, again.id).reason


def test_a_failed_source_fails_those_that_evaluate_it_with_its_reason(plan, folder, tmp_path):
    folder = copied(folder, tmp_path)
    (source,), (again,) = plan.rows["tread"], plan.rows["unguided"]
    failed = folder.record(source.id).model_copy(update={"status": "failed", "reason": "out of memory: so much"})
    folder.write_record(failed)  # it was trained, and its steps could not be timed
    assert figures(judged_again(folder, again.id)) == figures(outcome(plan, folder, "tread"))
    folder.write_record(failed.model_copy(update={"cost": None}))
    reason = judged_again(folder, again.id).reason
    assert reason.endswith(f"cell {source.id}, whose weights this one reads, is failed: out of memory: so much")


def test_weights_of_another_run_are_judged_as_in_their_own(plan, folder, tmp_path):
    text = f"{BASE}  elsewhere: {{evaluate: {{row: tread, run: '{folder.root}'}}}}\n".replace("toy", "other")
    other = planned(tmp_path, text)
    (cell,) = other.rows["elsewhere"]
    assert cell.sources["network"] == WeightsRef(cell=plan.rows["tread"][0].id, iteration=8, run=str(folder.root))
    here = begun(tmp_path / "run", other, text, [cell])
    assert figures(run_cell(here.root, cell.id, 1, quiet)) == figures(outcome(plan, folder, "tread"))


GUIDED = ("--cell", "tread", "--scale", 2, "--guidance")


def sample(folder, *arguments):
    return CliRunner().invoke(app, ["sample", str(folder.root), *map(str, arguments)])


def test_sample_is_deterministic_and_default_images_are_those_of_the_evaluation(plan, folder, tmp_path):
    for name in ("a", "b"):
        made = sample(folder, "--cell", "tread", "--num", 16, "--out", tmp_path / name, "--json")
        assert made.exit_code == 0, made.exception
    told = json.loads(made.stdout)
    assert told["sampling_macs"] == outcome(plan, folder, "tread").sampling_macs
    assert [Path(path).name for path in told["images"]] == [f"{number:05d}.png" for number in range(16)]
    with Image.open(told["images"][0]) as picture:
        assert picture.size == (8, 8)
    names = [path.name for path in (tmp_path / "a").iterdir()]
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)
    record = outcome(plan, folder, "tread")
    assert (tmp_path / "a" / "grid.png").read_bytes() == grid(folder, record)


def test_sample_takes_guidance_as_a_suite_writes_it(plan, folder):
    asked = ("--num", 2, "--steps", 3, "--classes", "3,4", "--json")
    made = sample(folder, *GUIDED, "{name: autoguidance, row: dense}", *asked)
    assert made.exit_code == 0, made.exception
    told = json.loads(made.stdout)
    assert told["sampling_macs"] == outcome(plan, folder, "by-dense").sampling_macs
    assert Path(told["grid"]).is_relative_to(folder.root / "samples" / plan.rows["tread"][0].id)


def test_sample_writes_adms_format(plan, folder, tmp_path):
    path = tmp_path / "new" / "samples.npz"
    made = sample(folder, "--cell", "tread", "--num", 23, "--npz", path, "--json")
    assert made.exit_code == 0, made.exception
    assert json.loads(made.stdout) == {"npz": str(path), "sampling_macs": outcome(plan, folder, "tread").sampling_macs}
    assert sample(folder, "--cell", "tread", "--num", 23, "--out", tmp_path / "folder").exit_code == 0
    with np.load(path) as found:
        assert list(found) == ["arr_0", "arr_1"]
        assert found["arr_0"].shape == (23, 8, 8, 1) and found["arr_0"].dtype == np.uint8
        assert found["arr_1"].tolist() == [number % 10 for number in range(23)]
        for number, image in enumerate(found["arr_0"]):
            with Image.open(tmp_path / "folder" / f"{number:05d}.png") as picture:
                assert np.array_equal(picture, image[..., 0])
    assert len(list(path.parent.iterdir())) == 1
    before, command = path.read_bytes(), ("--cell", "tread", "--num", 3, "--classes", "3,4", "--npz", path)
    assert isinstance(sample(folder, *command).exception, OutputError) and path.read_bytes() == before
    again = sample(folder, *command, "--overwrite")
    assert again.exit_code == 0 and again.stdout.splitlines()[0] == str(path)
    assert again.stderr.startswith("tread on cpu: 0 of 3")
    with np.load(path) as found:
        assert len(before) > len(found["arr_0"]) == 3 and found["arr_1"].tolist() == [3, 4, 3]


def test_samples_for_a_file_are_generated_batch_by_batch(folder):
    batches = SampledCell.open(folder.root, "tread", 100_000).batches()
    assert len(next(batches)) < 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cell", "tread", "--npz", "a.npz", "--out", "b"), "--npz a.npz writes one file, --out b a folder"),
        (("--cell", "tred"), "unknown cell 'tred'; did you mean 'tread'?"),
        (("--cell", "tread", "--guidance", "cgf"), "did you mean 'cfg'?"),
        (("--cell", "tread", "--scale", 2), "guidance_scale 2 has no effect with guidance none"),
        (("--cell", "tread", "--classes", "3,10"), "must be classes 0 to 9"),
        (("--cell", "tread", "--iteration", 5), "keeps no weights of iteration 5 (kept: 2, 8)"),
        (("--cell", "dense", "--guidance", "sparse", "--scale", 2), "add blocks: 2:8"),
        (("--cell", "cfg evaluate=tread guidance_scale=1", "--guidance", "sparse"), "set guidance_scale"),
        (
            (*GUIDED, "{name: autoguidance, row: tread}", "--iteration", 2),
            "must come before the evaluated iteration, 2",
        ),
        ((*GUIDED, "{name: autoguidance, row: dense, snapshot: 3}"), "'dense' keeps weights only of iteration 2, 8"),
        ((*GUIDED, "{name: path_drop, blocks: '0:-1'}"), "leaves no block"),
    ],
)
def test_sample_says_what_is_wrong(folder, arguments, message):
    made = sample(folder, *arguments)
    assert made.exit_code == 1 and message in str(made.exception)  # main prints it and ends with status 2


def test_sample_takes_no_weak_network_of_another_objective(plan, folder, tmp_path):
    folder = copied(folder, tmp_path)
    path = folder.cell(plan.rows["dense"][0].id) / "cell.json"
    about = json.loads(path.read_text())
    about["config"]["objective"] = {"name": "edm"}
    path.write_text(json.dumps(about))
    made = sample(folder, *GUIDED, "{name: autoguidance, row: dense}")
    assert "row 'dense' was trained on other data or for another objective" in str(made.exception)
