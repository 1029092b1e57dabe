"""`evaluate` as people call it: by the commands of docs/methods/evaluate.md, with mistakes, and interrupted."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

import tread_bench
from tests.toy_suite import METRICS, finished_run, toy_suite, write_suite
from tread_bench.cli.app import app
from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.core.stored.evaluations import SetEvaluation
from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.quality.fingerprint import protocol_fingerprint
from tread_bench.measure.quality.networks.classifier.network import DIGITS_WEIGHTS
from tread_bench.measure.sets.samples import open_samples
from tread_bench.services.evaluate import _grid
from tread_bench.services.run_samples import GeneratedStore
from tread_bench.services.sample import SampledCell

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


def figures(evaluation: SetEvaluation) -> dict[str, float | None]:
    return {row.figure: row.value for row in evaluation.rows}


def test_the_first_try_of_the_page_works_as_it_stands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = (line for block in blocks("sh") for line in block.splitlines() if " mine " in line)
    assert evaluate(*shlex.split(command)[2:]) == 0
    told = capsys.readouterr()

    # The table, what cannot be measured with 300 samples, and the page.
    page = Path(told.out.splitlines()[-1])
    found = document(page.parent)
    assert page.is_file() and page.parent.parent == Path("evaluations")
    assert "FID∞ (digits-classifier): 300 samples: it needs 10,000 or more" in told.out
    assert "caution: FID from 300 samples: published figures are from 50,000" in told.out
    assert "features of samples (digits-classifier on cpu): 300 of 300" in told.err

    # The figures: 300 digits against 300 others are near each other, and not the same.
    values = figures(found)
    assert values["fid"] is not None and 1 < values["fid"] < 100
    assert values["precision"] is not None and 0.5 < values["precision"] < 1
    assert (found.samples.count, found.samples.shape) == (300, (1, 8, 8))
    assert found.networks[0].device_effect == 0
    assert all(re.fullmatch("[0-9a-f]{12}", row.fingerprint) for row in found.measured)
    assert "data:image/png;base64," in page.read_text()


def test_a_set_against_itself_has_no_distance_and_python_gives_what_the_command_gives(folder: Path) -> None:
    assert evaluate("mine", "--reference", "mine", *DIGITS, "--out", "same") == 0
    values = figures(document(Path("same")))
    assert abs(values["fid"] or 0) < 1e-3 and values["precision"] == values["recall"] == 1
    assert evaluate("mine", "--reference", "real", *DIGITS, "--out", "out") == 0
    found = tread_bench.evaluate("mine", "real", networks="digits-classifier")
    assert found.rows == document(Path("out")).rows and found.networks == document(Path("out")).networks
    assert sorted(path.name for path in folder.iterdir()) == ["cache", "mine", "out", "real", "same"]

    # The page's lines of Python, which take the same steps.
    said: dict[str, Any] = {}
    exec("\n".join(blocks("python")[1:]), said)
    assert said["evaluation"].rows == found.rows
    assert said["fid"] == pytest.approx(figures(found)["fid"], rel=1e-5)  # batches of another size
    assert found.frame().set_index("figure").value["fid"] == figures(found)["fid"]


def test_the_same_command_again_finds_the_features_and_another_one_has_another_folder(
    folder: Path, images_seen: list[int]
) -> None:
    command = ("mine", "--reference", "real", *DIGITS, "--metrics")
    assert evaluate(*command, "fid") == 0 and sum(images_seen) == 600
    assert evaluate(*command, "fid") == 0 and sum(images_seen) == 600
    assert len([*Path("evaluations").iterdir()]) == 1
    assert evaluate(*command, "fid, {name: kid, subset_size: 50}") == 0 and sum(images_seen) == 600
    assert len([*Path("evaluations").iterdir()]) == 2


def test_an_interrupted_evaluation_says_how_to_resume(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Extractor, "features", interrupted)
    assert evaluate("mine", "--reference", "real", *DIGITS) == 130
    assert capsys.readouterr().err.endswith("interrupted; run the same command again to resume\n")


def test_all_mistakes_are_reported_at_once_and_nothing_is_written(folder: Path) -> None:
    Path("notes").mkdir()
    Path("notes/index.html").write_text("my notes")
    with pytest.raises(UserError) as caught:
        evaluate(
            *("mien", "--reference", "digts", "--metrics", "fidd, {name: kid, subset_sise: 5}, fid, fid"),
            *("--network", "digits-clasifier", "--network", "{name: trained-classifier, weihgts: a}"),
            *("--weights", "wieghts", "--out", "notes", "--num", "5"),
        )
    told = str(caught.value)
    for expected in (
        "mien cannot be read (No such file",
        "--num: for the folder of a run, and mien is not one",
        "unknown name 'digts'; did you mean 'digits'?",
        "--metrics: unknown metric 'fidd'; did you mean 'fid'?",
        "--metrics kid: unknown key 'subset_sise'; did you mean 'subset_size'?",
        "--metrics: fid is given twice",
        "did you mean 'digits-classifier'?",
        "--network trained-classifier: unknown key 'weihgts'; did you mean 'weights'?",
        "--weights wieghts: no such folder",
        "--out notes contains index.html",
    ):
        assert expected in told, told
    assert sorted(path.name for path in folder.iterdir() if path.name != "cache") == ["mine", "notes", "real"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--metrics", "sfid"), r"--metrics: sfid reads spatial, which digits-classifier cannot give"),
        (("--metrics", "fid: {"), r"--metrics fid: \{: "),
        (("--metrics", ""), r"--metrics '' names nothing"),
        (("--metrics", "{subsets: 5}"), r"must be a name, or settings such as \{name: NAME, \.\.\.\}"),
        (("--metrics", "{name: kid, subset_size: 1}"), r"--metrics kid: subset_size 1: must be greater than or equal"),
        (("--labels", "labels.npy"), r"labels\.npy cannot be read \(No such file"),
        (("--metrics", "fid_infinity"), r"nothing can be measured\nFID∞ \(digits-classifier\): 300 samples"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_any_work(
    folder: Path, arguments: tuple[str, ...], told: str, images_seen: list[int]
) -> None:
    with pytest.raises(UserError, match=told):
        evaluate("mine", "--reference", "real", *DIGITS, *arguments)
    assert not images_seen and not Path("evaluations").exists()


def test_without_weights_each_figure_is_refused_by_name_and_the_others_are_measured(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match=r"FID, .*sFID.* \(inception\): (.|\n)*FD-DINOv2, .* \(dinov2\): "):
        evaluate("mine", "--reference", "real")
    with_digits = ("mine", "--reference", "real", *DIGITS, "--network", "inception", "--out", "out")
    assert evaluate(*with_digits) == 1  # inception was named
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"not measured: FID, .*sFID.* \(inception\): .*weights-inception-2015-12-05-6726825d\.pth", told)
    found = document(Path("out"))
    assert {row.network for row in found.measured} == {"digits-classifier"}
    assert [network.name for network in found.networks] == ["digits-classifier"]
    assert "Not measured" in Path("out/index.html").read_text()


def test_a_named_metric_that_is_refused_is_status_1_and_a_default_one_is_not(folder: Path) -> None:
    Path("few").mkdir()
    for name in ("000000.png", "000001.png", "000002.png", "000003.png", "000004.png"):
        (Path("few") / name).write_bytes((Path("mine") / name).read_bytes())
    assert evaluate("few", "--reference", "real", *DIGITS) == 0
    assert evaluate("few", "--reference", "real", *DIGITS, "--metrics", "fid,kid", "--out", "out") == 1
    (refused,) = document(Path("out")).refused
    assert refused.metric == "kid" and refused.refused == "5 samples: it needs 100 or more"
    published = ("mine", "--reference", "real", *DIGITS, "--protocol", "torch-fidelity", "--metrics", "fid,kid")
    assert evaluate(*published, "--out", "out") == 1
    (refused,) = document(Path("out")).refused
    assert refused.metric == "kid" and refused.refused == "300 samples: it needs 1,000 or more"


def test_another_request_has_another_folder_and_moved_weights_are_the_same_request(folder: Path) -> None:
    for name, labels in {"first": np.arange(300) % 10, "second": np.arange(300) % 5}.items():
        np.save(f"{name}.npy", labels)

    command = ("mine", "--reference", "real", "--metrics", "fid", "--network")
    for more in ((), ("--labels", "first.npy"), ("--labels", "second.npy")):
        assert evaluate(*command, "digits-classifier", *more) == 0
    assert len([*Path("evaluations").iterdir()]) == 3
    for name in ("a", "b"):
        shutil.copy(DIGITS_WEIGHTS, f"{name}.safetensors")
        assert evaluate(*command, f"{{name: trained-classifier, weights: {name}.safetensors}}") == 0
    assert len([*Path("evaluations").iterdir()]) == 4


def test_numbers_from_python_are_checked_like_those_of_the_command(folder: Path) -> None:
    with pytest.raises(UserError) as caught:
        tread_bench.evaluate(
            "mine", "real", networks=["digits-classifier"], batch=0, num=-1, cell_seed=-3, iteration=-2
        )
    for told in (
        "--batch 0: must be at least 1",
        "--num -1: must be",
        "--cell-seed -3: must be",
        "--iteration -2: must be",
    ):
        assert told in str(caught.value)


def test_json_is_the_document(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("mine", "--reference", "real", *DIGITS, "--metrics", "fid", "--out", "out", "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path("out/evaluation.json").read_text())


def test_images_of_two_sizes_are_warned_about_and_a_network_of_one_size_refuses_them(folder: Path) -> None:
    Path("large").mkdir()
    for path in Path("real").iterdir():
        Image.open(path).resize((16, 16)).save(Path("large") / path.name)
    assert evaluate("mine", "--reference", "large", "--network", "glyphs-classifier", "--out", "out") == 0
    assert document(Path("out")).warnings == [
        "Samples are 1×8×8 and reference images 1×16×16: their sizes alone change the features."
    ]
    with pytest.raises(UserError, match=r"nothing can be measured(.|\n)*1x8x8 images, the data are 1x16x16"):
        evaluate("mine", "--reference", "large", *DIGITS)


def test_samples_of_another_guidance_have_another_fingerprint(tmp_path: Path) -> None:
    guided = {"guidance": "cfg", "guidance_scale": 1.5}
    prints = set()
    for sampling in ({}, guided, {**guided, "guidance_scale": 4}):
        cell = Cell.model_validate({"backbone": "DiT-S/2", "training": {"iterations": 1}, "sampling": sampling})
        sampled = cast(SampledCell, SimpleNamespace(cell=cell))
        prints.add(protocol_fingerprint(**GeneratedStore(tmp_path, sampled, lambda *_: None).protocol))
    assert len(prints) == 3


def test_a_file_that_somebody_else_put_in_the_place_of_samples_is_kept(tmp_path: Path) -> None:
    store = GeneratedStore(tmp_path, cast(SampledCell, SimpleNamespace()), lambda *_: None)
    file = tmp_path / "samples" / "cell" / "64-0.npz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"mine")
    store.__dict__["path"] = file
    with pytest.raises(UserError, match=r"64-0\.npz: "):
        store.batches(4, 0)
    assert file.read_bytes() == b"mine"


@pytest.mark.slow
def test_samples_of_a_run_are_generated_once_and_are_those_of_its_metrics(
    folder: Path, images_seen: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    suite = write_suite(folder, toy_suite(iterations=4, checkpoint_every=4, seeds=2, metrics=METRICS, pairs=0))
    finished_run(suite, folder / "run")
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
    assert found.samples.generated["iteration"] == 4 and "sampling_steps" in found.networks[0].protocol

    # The file is found again; other samples have a file of their own.
    (file,) = (path for path in Path("run/samples").rglob("*.npz"))
    before = file.stat().st_mtime_ns
    assert evaluate(*command, "--out", "out") == 0 and file.stat().st_mtime_ns == before
    assert evaluate(*command, "--num", 32) == 0 and len([*Path("run/samples").rglob("*.npz")]) == 2


@pytest.mark.parametrize(("height", "width", "side"), [(8, 520, 57), (520, 8, 57), (96, 256, 64), (8, 8, 8)])
def test_images_of_any_shape_have_a_grid(tmp_path: Path, height: int, width: int, side: int) -> None:
    np.savez(tmp_path / "mine.npz", arr_0=np.zeros((3, height, width, 3), np.uint8))
    grid = _grid(open_samples(tmp_path / "mine.npz"))
    assert (grid.images, grid.side) == (3, side)


def test_the_first_images_of_a_folder_are_scored_as_if_they_were_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree("mine", "more")
    for number in range(300, 316):  # what the last batch of each process leaves
        shutil.copy(f"real/{number - 300:06}.png", f"more/{number}.png")
    figures_of = {}
    for name, num in (("mine", []), ("more", ["--num", 300])):
        assert evaluate(name, "--reference", "real", *DIGITS, *num, "--metrics", "fid,kid", "--out", f"out-{name}") == 0
        figures_of[name] = document(Path(f"out-{name}"))
    assert figures(figures_of["mine"]) == figures(figures_of["more"])
    assert figures_of["more"].samples.count == 300
    (warning,) = figures_of["more"].warnings
    assert warning.endswith("more/: the first 300 of 316 images, in the order of the numbers in their names.")
    assert warning in capsys.readouterr().out.replace("\n", " ")
    with pytest.raises(UserError, match=r"more/: 316 images, and --num requests 317"):
        tread_bench.evaluate("more", "real", networks=["digits-classifier"], num=317)


def test_images_that_exif_alone_turns_are_counted(folder: Path) -> None:
    orientation = Image.Exif()
    orientation[0x0112] = 6
    for number in (3, 5):
        with Image.open(f"real/{number:06}.png") as image:
            image.save(f"real/{number:06}.png", exif=orientation)
    evaluation = tread_bench.evaluate("mine", "real", networks=["digits-classifier"], metrics="fid")
    (warning,) = evaluation.warnings
    assert "real/: 2 of 300 images are turned by their EXIF orientation alone, which is not applied" in warning
