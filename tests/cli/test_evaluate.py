"""`evaluate` as people call it: by the commands of docs/methods/evaluate.md, and with mistakes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tread_bench
from tread_bench.cli.app import app
from tread_bench.core.errors import UserError
from tread_bench.core.stored.evaluations import SetEvaluation
from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.sets.samples import open_samples
from tread_bench.services.evaluate import _grid

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "evaluate.md"
DIGITS = ["--network", "digits-classifier"]


def blocks(language: str) -> list[str]:
    """The code blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the two sets of the page, an empty cache and no weights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TREAD_BENCH_WEIGHTS", raising=False)
    exec(blocks("python")[0], {})
    return tmp_path


@pytest.fixture
def images_seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images the feature network was shown, call by call."""
    seen: list[int] = []
    real = Extractor.features

    def counted(self: Extractor, pixels: object, *arguments: object, **options: object) -> object:
        seen.append(len(pixels))  # type: ignore[arg-type]
        return real(self, pixels, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Extractor, "features", counted)
    return seen


def evaluate(*arguments: object) -> int:
    """The exit status of `tread-bench evaluate`, in this process."""
    status = app(["evaluate", *map(str, arguments)], standalone_mode=False)
    return int(status or 0)


def document(folder: Path) -> SetEvaluation:
    return SetEvaluation.model_validate_json((folder / "evaluation.json").read_text(), strict=True)


def figures(evaluation: SetEvaluation) -> dict[str, float]:
    return {row.figure: row.value for row in evaluation.rows}


def test_the_first_try_of_the_page_works_as_it_stands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = (line for block in blocks("sh") for line in block.splitlines() if " mine " in line)
    assert evaluate(*shlex.split(command)[2:]) == 0
    told = capsys.readouterr()

    # The table, what cannot be measured with 300 samples, and the page.
    page = Path(told.out.splitlines()[-1])
    found = document(page.parent)
    assert page.is_file() and page.parent.parent == Path("evaluations")
    assert "caution: Not measured: fid_infinity (digits-classifier): 300 samples: it needs 10,000" in told.out
    assert "caution: FID from 300 samples: published figures are from 50,000" in told.out
    assert "features of samples (digits-classifier on cpu): 300 of 300" in told.err

    # The figures: 300 digits against 300 others are near each other, and not the same.
    values = figures(found)
    assert 1 < values["fid"] < 100 and 0.5 < values["precision"] < 1
    assert (found.samples.count, found.samples.shape) == (300, (1, 8, 8))
    assert all(re.fullmatch("[0-9a-f]{12}", row.fingerprint) for row in found.rows)
    assert "data:image/png;base64," in page.read_text()


def test_a_set_against_itself_has_no_distance_and_python_gives_what_the_command_gives(folder, capsys):
    assert evaluate("mine", "--reference", "mine", *DIGITS, "--out", "same") == 0
    capsys.readouterr()
    values = figures(document(Path("same")))
    assert abs(values["fid"]) < 1e-3 and values["precision"] == values["recall"] == 1
    assert evaluate("mine", "--reference", "real", *DIGITS, "--out", "out", "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path("out/evaluation.json").read_text())
    found = tread_bench.evaluate("mine", "real", networks="digits-classifier")
    assert found.rows == document(Path("out")).rows and found.networks == document(Path("out")).networks
    assert sorted(path.name for path in folder.iterdir()) == ["cache", "mine", "out", "real", "same"]

    # The page's lines of Python, which take the same steps.
    said: dict[str, Any] = {}
    exec("\n".join(blocks("python")[1:]), said)
    assert said["evaluation"].rows == found.rows
    assert said["fid"] == pytest.approx(figures(found)["fid"], rel=1e-5)  # batches of another size


def test_the_same_command_again_finds_the_features_and_another_one_has_another_folder(folder, images_seen):
    command = ("mine", "--reference", "real", *DIGITS, "--metrics")
    assert evaluate(*command, "fid") == 0 and sum(images_seen) == 600
    assert evaluate(*command, "fid") == 0 and sum(images_seen) == 600
    assert len([*Path("evaluations").iterdir()]) == 1
    assert evaluate(*command, "fid, {name: kid, subset_size: 50}") == 0 and sum(images_seen) == 600
    assert len([*Path("evaluations").iterdir()]) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("mien", "--reference", "real"), r"mien cannot be read \(No such file"),
        (("mine", "--reference", "digts"), "unknown name 'digts'; did you mean 'digits'?"),
        (("--metrics", "fidd, fid"), r"metrics\.0\.name: unknown metrics\.0 'fidd'; did you mean 'fid'\?"),
        (
            ("--metrics", "{name: kid, subset_sise: 5}"),
            r"unknown metrics\.0 key 'subset_sise'; did you mean 'subset_",
        ),
        (("--metrics", "{subsets: 5}"), "name"),
        (("--metrics", "fid,sfid"), "sfid cannot be measured; `tread-bench list metrics` says"),
        (("--metrics", "fid_infinity"), r"fid_infinity, digits-classifier cannot .*\nfid_infinity .*: 300 samples"),
        (("--metrics", "fid,{name: kid, subset_size: 400}"), r"^kid cannot be .*\nkid .*it needs 400 or more"),
        (("--network", "inception"), r"^inception cannot (.|\n)*\ninception: .*weights-inception-2015-12-05-.*\.pth"),
        (("--iteration", "3"), "--iteration: for the folder of a run, and mine is not one"),
        (("--network", "digits-classifier"), "digits-classifier, digits-classifier: one is named twice"),
        (("--out", "notes"), "--out notes contains index.html"),
        (("--num", "301"), "mine/: 300 images, and --num requests 301"),
        (("mine.npz", "--reference", "real", "--num", "5"), r"--num 5: for a folder, and mine\.npz is a file"),
    ],
)
def test_a_mistake_is_one_message_before_any_work(arguments, told, folder, images_seen):
    Path("notes").mkdir()
    Path("notes/index.html").write_text("my notes")
    np.savez("mine.npz", arr_0=np.zeros((300, 8, 8, 1), np.uint8))
    sets = ("mine", "--reference", "real") if arguments[0].startswith("--") else ()
    with pytest.raises(UserError, match=told):
        evaluate(*sets, *DIGITS, *arguments)
    assert not images_seen
    assert {path.name for path in folder.iterdir()} - {"cache"} == {"mine", "mine.npz", "notes", "real"}


def test_default_networks_without_weights_are_left_out_and_nothing_else_is_an_error(folder, monkeypatch):
    with pytest.raises(UserError, match=r"^nothing can be measured; .*\ninception: .*\ndinov2: "):
        evaluate("mine", "--reference", "real")
    monkeypatch.setattr("tread_bench.services.evaluate.DEFAULT_NETWORKS", ("digits-classifier", "inception"))
    assert evaluate("mine", "--reference", "real", "--out", "out") == 0
    found = document(Path("out"))
    assert {row.network for row in found.rows} == {"digits-classifier"}
    assert "Not measured: inception: feature network inception: its weights" in "\n".join(found.warnings)
    assert "Not measured: inception" in Path("out/index.html").read_text()


def test_a_default_metric_that_cannot_be_measured_is_left_out(folder: Path) -> None:
    assert evaluate("mine", "--reference", "real", *DIGITS, "--num", 5, "--out", "out") == 0
    found = document(Path("out"))
    assert set(figures(found)) == {"fid", "inception_score", "precision", "recall"}
    assert "Not measured: kid (digits-classifier): 5 samples: it needs 100 or more" in found.warnings

    # The first images are scored as if they were alone.
    Path("alone").mkdir()
    for path in sorted(Path("mine").iterdir())[:5]:
        shutil.copy(path, "alone")
    assert evaluate("alone", "--reference", "real", *DIGITS, "--out", "out-alone") == 0
    assert figures(document(Path("out-alone"))) == figures(found)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"num": 0}, {"num": -1}, {"protocol": "admm"}])
def test_values_from_python_are_checked_like_those_of_the_command(wrong: dict[str, Any], folder: Path) -> None:
    (name,) = wrong
    with pytest.raises(UserError, match=name):
        tread_bench.evaluate("mine", "real", networks=["digits-classifier"], **wrong)


def test_images_of_two_sizes_are_warned_about_and_a_network_of_one_size_refuses_them(folder: Path) -> None:
    Path("large").mkdir()
    for path in Path("real").iterdir():
        Image.open(path).resize((16, 16)).save(Path("large") / path.name)
    assert evaluate("mine", "--reference", "large", "--network", "glyphs-classifier", "--out", "out") == 0
    told = "Samples are 1×8×8 and reference images 1×16×16: their sizes alone change the features."
    assert told in document(Path("out")).warnings
    refusal = r"digits-classifier cannot be measured(.|\n)*1x8x8 images, the data are 1x16x16"
    with pytest.raises(UserError, match=refusal):
        evaluate("mine", "--reference", "large", *DIGITS)


def test_samples_of_a_run_are_generated_once_and_are_those_of_its_metrics(folder, trained_toy, images_seen, capsys):
    shutil.copytree(trained_toy, folder / "run")
    with pytest.raises(UserError, match="run is a run: name the row"):
        evaluate("run", "--reference", "digits", *DIGITS)
    with pytest.raises(UserError, match="unknown cell 'dens'; did you mean 'dense'"):
        evaluate("run", "--cell", "dens", "--reference", "digits", *DIGITS)

    # The cell's own figure, from the samples of its metrics.
    command = ("run", "--cell", "dense", "--cell-seed", 1, "--reference", "digits", *DIGITS, "--metrics", "fid")
    assert evaluate(*command, "--out", "out") == 0
    found = document(Path("out"))
    (record,) = (one for one in tread_bench.load("run").records if (one.row, one.seed) == ("dense", 1))
    assert record.last is not None and found.samples.count == 64
    assert figures(found)["fid"] == pytest.approx(record.last.fid, rel=1e-4)
    assert found.samples.generated["iteration"] == 60 and "sampling_steps" in found.networks[0].protocol

    # The file is found again; other samples have a file of their own.
    (file,) = (path for path in Path("run/samples").rglob("*.npz"))
    before = file.stat().st_mtime_ns
    assert evaluate(*command, "--out", "out") == 0 and file.stat().st_mtime_ns == before
    assert evaluate(*command, "--num", 32) == 0 and len([*Path("run/samples").rglob("*.npz")]) == 2

    # What somebody else put in the place of one is kept.
    file.write_bytes(b"mine")
    with pytest.raises(UserError, match=r"\.npz: not an \.npz archive"):
        evaluate(*command, "--out", "out")
    assert file.read_bytes() == b"mine"

    # Guidance is part of what figures depend on.
    protocol = found.networks[0].protocol
    assert {"sampling_guidance", "sampling_guidance_scale"} <= set(protocol)


@pytest.mark.parametrize(("height", "width", "size"), [(8, 520, (579, 3)), (96, 256, (649, 49))])
def test_images_of_any_shape_have_a_grid(tmp_path: Path, height: int, width: int, size: tuple[int, int]) -> None:
    np.savez(tmp_path / "mine.npz", arr_0=np.zeros((30, height, width, 3), np.uint8))
    with Image.open(BytesIO(_grid(open_samples(tmp_path / "mine.npz")))) as grid:
        assert grid.size == size
