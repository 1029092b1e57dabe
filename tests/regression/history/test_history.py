"""`tread-bench ci history` as people type it, and the page that it leaves."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from synthetic_runs import commit_of, night, two_changes, write_history, write_run

from tests.command_line import tread_bench
from tread_bench.core.errors import UserError
from tread_bench.core.stored.destinations import MARKER
from tread_bench.services.history import history_of

HOSTILE = '<script>alert(1)</script> & "quoted" $\\foo$ {{ 1 }}'


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return write_history(tmp_path_factory.mktemp("runs"), 30, two_changes, rows=3)


@pytest.fixture(scope="module")
def made(folders, tmp_path_factory):
    """The command's result over thirty runs and one folder that is none, and the folder that it wrote."""
    out = tmp_path_factory.mktemp("made") / "history"
    return tread_bench("ci", "history", *folders, "no-run", "--out", out), out


def decision_of(out):
    """The first sentence of a page."""
    page = (out / "index.html").read_text(encoding="utf-8")
    return page.partition('<p class="quality">')[2].partition("</p>")[0]


def test_the_changes_are_told_with_their_commits(made):
    done, out = made
    assert done.returncode == 3, done.stderr  # a folder was left out
    told = [line for line in done.stdout.splitlines() if "…" in line]
    assert len(told) == 2
    for line, what in zip(told, (("dense", "FID", "better", 12), ("2:8", "Step time", "worse", 20)), strict=True):
        *words, at = what
        assert all(word in line for word in (*words, f"{commit_of(at - 1)[:7]} … {commit_of(at)[:7]}"))
    assert "2 changes in 20 series over 30 runs: 1 for the worse and 1 for the better" in done.stdout
    assert "Step time in probes: median training step, in units of a probe" in done.stdout
    assert done.stdout.rstrip().endswith(str(out / "index.html"))


def test_a_folder_that_is_no_run_is_named_and_loses_no_other(made):
    done, out = made
    assert done.stderr.strip().startswith("left out: no-run is not a run folder")
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "no-run is not a run folder" in page and "over 30 runs" in page
    assert decision_of(out).startswith(f"One change for the worse since {commit_of(0)[:7]}: Step time of 2:8 by +")
    assert decision_of(out).endswith(f" % at {commit_of(20)[:7]}.") and len(decision_of(out).split()) <= 20


def test_a_smoke_run_beside_others_is_left_out_with_the_reason(folders, tmp_path):
    smoke = write_run(tmp_path / "smoke", 31, night(31, rows=3), {"smoke": True})
    done = tread_bench("ci", "history", *folders[:2], smoke, "--out", tmp_path / "history")
    assert done.returncode == 3 and done.stderr.strip() == (
        f"left out: {smoke} is a smoke run, whose figures mean nothing; run its suite without --smoke"
    )
    assert "smoke run" in (tmp_path / "history" / "index.html").read_text(encoding="utf-8")
    alone = tread_bench("ci", "history", smoke, "--out", tmp_path / "alone")
    assert alone.returncode == 2 and "no run to show" in alone.stderr and not (tmp_path / "alone").exists()


def test_the_page_draws_changes_open_and_the_rest_folded(made):
    _, out = made
    page = (out / "index.html").read_text(encoding="utf-8")
    changes, _, steady = page.partition('id="steady"')
    assert changes.count('<h3 id="') == 2 and '<h3 id="fid"' in changes
    assert steady.count("<details><summary>") >= 4
    assert {path.suffix for path in (out / "figures").iterdir()} == {".svg"}
    drawn = (out / "figures" / "step_time_probes.svg").read_text(encoding="utf-8")
    assert all(commit_of(k)[:7] in drawn for k in range(30)) and drawn.count("font-weight: 700") == 1


def test_a_figure_of_an_added_metric_is_drawn(tmp_path):
    def with_coverage(record):
        last = [one.model_copy(update={"figures": {"coverage": 0.5}}) for one in record.evaluations]
        return record.model_copy(update={"evaluations": last})

    out = tmp_path / "out"
    done = tread_bench("ci", "history", *write_history(tmp_path, 8, lambda k: with_coverage, rows=2), "--out", out)
    assert done.returncode == 0, done.stderr
    assert (out / "figures" / "coverage.svg").exists()
    assert 'id="coverage"' in (out / "index.html").read_text(encoding="utf-8")


def test_an_export_has_its_figures_for_papers(folders, tmp_path):
    done = tread_bench("ci", "history", *folders[:9], "--out", tmp_path / "out", "--tables", tmp_path / "paper")
    assert done.returncode == 0, done.stderr
    drawn = {path.stem for path in (tmp_path / "out" / "figures").iterdir()}
    kinds = ("svg", "png", "pdf", "csv", "md", "tex")
    written = {path.name for path in (tmp_path / "paper").iterdir()}
    assert written == {MARKER, *(f"{name}.{k}" for name in drawn for k in kinds)}


@pytest.fixture(scope="module")
def backwards(folders, tmp_path_factory):
    """As `made`, of the folders in another order, with the result as JSON."""
    out = tmp_path_factory.mktemp("backwards") / "history"
    return tread_bench("ci", "history", "no-run", *folders[::-1], "--json", "--out", out), out


def test_json_holds_every_value_and_change(backwards):
    document = json.loads(backwards[0].stdout)
    assert [run["commit"] for run in document["runs"]] == [commit_of(k) for k in range(30)]
    changed = {(one["row"], one["metric"]): one["changes"] for one in document["series"] if one["changes"]}
    assert {key: [change["first"] for change in found] for key, found in changed.items()} == {
        ("dense", "fid"): [12],
        ("2:8", "step_time_probes"): [20],
    }
    assert all(len(one["values"]) == len(one["runs"]) == 30 for one in document["series"])


def test_the_page_is_the_same_whatever_the_order_of_the_folders(backwards, made):
    for name in ("index.html", "figures/fid.svg"):
        assert (backwards[1] / name).read_bytes() == (made[1] / name).read_bytes()


def test_nothing_changed_and_too_few_runs_are_said(folders, tmp_path):
    done = tread_bench("ci", "history", *folders[:10], "--out", tmp_path / "ten")
    assert "no change found in 20 series over 10 runs" in done.stdout and "too few" not in done.stdout
    assert done.returncode == 0
    assert decision_of(tmp_path / "ten") == (
        f"Nothing got worse since {commit_of(0)[:7]}, in 20 series with enough runs."
    )
    few = tread_bench("ci", "history", *folders[:3], "--out", tmp_path / "three")
    assert few.stdout.startswith("too few comparable runs to tell a change from noise: 8 are needed; no change found")
    assert "in 6 series of counts\n" in few.stdout
    one = tread_bench("ci", "history", folders[0], "--out", tmp_path / "one")
    assert one.stdout.startswith("too few comparable runs to tell a change from noise: 8 are needed\n")
    assert few.returncode == 0
    assert decision_of(tmp_path / "three") == "Undecided: too few comparable runs to tell a change from noise."


def test_without_its_extra_a_change_is_not_looked_for_and_nothing_is_written(folders, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ruptures", None)
    with pytest.raises(UserError, match=r"needs ruptures: pip install 'tread-bench\[ci\]'"):
        history_of(folders[:8], tmp_path / "out", None)
    assert not [*tmp_path.iterdir()]
    assert not history_of(folders[:2], tmp_path / "out", None).left_out


def test_a_picture_that_is_no_longer_drawn_goes(folders, tmp_path):
    tread_bench("ci", "history", *folders[:2], "--out", tmp_path)
    (tmp_path / "figures" / "mine.svg").write_text("kept")
    assert (tmp_path / "figures" / "fid.svg").exists()
    tread_bench("ci", "history", folders[0], "--out", tmp_path)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["mine.svg"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere", "elsewhere"), "no run to show"),
        (("RUN", "--out", "RUN"), "is in the run folder"),
        (("RUN", "--out", "FILE"), "cannot be a folder"),
        ((), "DIR"),
    ],
)
def test_what_cannot_be_used_is_one_message_and_status_2(folders, tmp_path, arguments, told):
    run = shutil.copytree(folders[0], tmp_path / "run")
    file = tmp_path / "file"
    file.touch()
    places = {"RUN": run, "FILE": file}
    done = tread_bench("ci", "history", *(places.get(name, name) for name in arguments), cwd=tmp_path)
    assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr
    assert not (run / "index.html").exists() and not done.stdout.strip()
    assert not (tmp_path / "history").exists()


def test_names_are_text_wherever_they_stand(tmp_path):
    about = {"suite": {"name": HOSTILE, "description": ""}, "git": None, "versions": {"tread-bench": HOSTILE}}
    hostile = [one.model_copy(update={"row": f"{HOSTILE}{one.row}"}) for one in night(0, rows=2)]
    runs = [write_run(tmp_path / f"{k} <b>", k, hostile, about) for k in range(9)]
    done = tread_bench("ci", "history", *runs, tmp_path / "<i>none", "--out", tmp_path / "out")
    assert done.returncode == 3, done.stderr
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "<b>/" not in page and "<i>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
