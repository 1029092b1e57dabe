"""`tread-bench compare` as people type it, its page, and what it may conclude."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from scipy import stats
from synthetic_records import HOSTILE, NUMERICS, STUDY, VERSIONS, evaluation, record
from synthetic_runs import write_run
from synthetic_studies import equal_cost, guidance

from tests.browser_view import DESKTOP, PHONE, fits
from tests.command_line import tread_bench
from tests.many_families import holm_of_each
from tread_bench.core.numbers.statistics import LEVEL
from tread_bench.core.stored.destinations import MARKER
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.records import DataFile
from tread_bench.reports.claims.compare import Run, differences, differing_in, rankings, rows_of_one, speeds
from tread_bench.reports.page.compare import compared, sentences, write
from tread_bench.runner.sources import read_run

TWO = {name: STUDY[name] for name in ("dense", "2:8", "0:10")}


def plan_of(records, **about):
    return RunPlan.model_validate(
        {
            "suite": {"name": "study"}, "timing": {"pairs": 20, "warmup": 3}, "cells": [one.cell for one in records],
            "references": {one.cell: one.reference for one in records}, "started": "2026-01-15T12:00:00+00:00",
            "rows": {one.cell: (one.row, one.seed) for one in records}, "numerics": NUMERICS, "versions": VERSIONS,
            "hardware": {"cpus": 2}, **about,
        }
    )  # fmt: skip


def rows_of(rows=TWO, seeds=range(5), add=0.0, **changes):
    """The records of a study whose FIDs are known, `add` higher; seeds and cells have noise of their own."""
    return [
        record(row, routes, seed, fid + add, speed, **changes)
        for row, (routes, fid, speed) in rows.items()
        for seed in seeds
    ]


def run(name, records, **about):
    return Run(name=name, plan=plan_of(records, **about), records=records)


def changed(records, **config):
    """With other settings: `training={"batch": 32}`."""
    return [
        one.model_copy(
            update={"config": {**one.config, **{k: {**one.config.get(k, {}), **v} for k, v in config.items()}}}
        )
        for one in records
    ]


def outcomes(*runs):
    return {one.of.row.name: one.outcome for one in differences(runs)}


# The same row, and what its figures depend on


def test_a_difference_is_that_of_the_means_and_its_sign_says_which_run_is_lower():
    found = {one.of.row.name: one for one in differences([run("a", rows_of()), run("b", rows_of(add=-3.0))])}
    assert {name: round(one.fid.mean, 9) for name, one in found.items()} == dict.fromkeys(TWO, -3.0)
    assert all(one.is_paired and one.fid.n == 5 and one.outcome == "lower" for one in found.values())


def test_equal_seeds_are_paired_and_others_are_not():
    a, b = run("a", rows_of(seeds=range(5))), run("b", rows_of(seeds=range(100, 104), add=1.0))
    (one, *_) = differences([a, b])
    own, other = ([r.last.fid for r in side.records if r.row == one.of.row.name] for side in (b, a))
    assert not one.is_paired and one.fid.n == 9
    assert one.fid.mean == pytest.approx(np.mean(own) - np.mean(other))
    half = run("b", rows_of(seeds=range(3, 8), add=1.0))
    (one, *_) = differences([a, half])
    assert one.is_paired and one.fid.n == 2  # seeds 3 and 4


def test_a_run_beside_its_copy_is_identical_to_the_last_digits_of_linear_algebra():
    records = rows_of()
    close = [
        one.model_copy(
            update={"evaluations": [e.model_copy(update={"fid": e.fid * (1 + 1e-12)}) for e in one.evaluations]}
        )
        for one in records
    ]
    assert set(outcomes(run("a", records), run("b", records)).values()) == {"identical"}
    assert set(outcomes(run("a", records), run("b", close)).values()) == {"identical"}


def test_rows_with_a_budget_are_tested_and_ranked_by_the_fids_that_are_shown():
    """Those where the row that the budget names ends: theirs end elsewhere, in another order."""
    higher = [evaluated_times(one, 1.1) for one in equal_cost()]
    a, b = run("a", equal_cost()), run("b", higher)
    found = differences([a, b])
    shown = {one.of.row.name: one.of.row.fid.mean - one.to.row.fid.mean for one in found}
    assert {one.of.row.name: one.fid.mean for one in found} == pytest.approx(shown) and len(found) == 10
    (ranking,) = rankings([a])
    fids = [member.row.fid.mean for member in ranking.members]
    assert fids == sorted(fids) and len(fids) == 10


def evaluated_times(one, factor):
    """The record with every FID times that factor."""
    return one.model_copy(
        update={"evaluations": [e.model_copy(update={"fid": factor * e.fid}) for e in one.evaluations]}
    )


def test_one_seed_gives_no_verdict():
    a = run("a", rows_of(seeds=[0]))
    for seed in (0, 1):  # paired, and not
        assert set(outcomes(a, run("b", rows_of(seeds=[seed], add=5))).values()) == {"too few seeds"}


def evaluated(records, **update):
    """With other details of their evaluations."""
    return [
        one.model_copy(update={"evaluations": [e.model_copy(update=update) for e in one.evaluations]})
        for one in records
    ]


OTHER_QUANTITIES = {
    "data": (lambda records: changed(records, data={"name": "random_latents"}), "data.name"),
    "objective": (lambda records: changed(records, objective={"name": "edm"}), "objective.name"),
    "protocol": (
        lambda records: evaluated(records, protocol="other", protocol_details={"num_samples": 64}),
        "metric protocol: num_samples",
    ),
    "iteration": (
        lambda records: [one.model_copy(update={"evaluations": one.evaluations[:1]}) for one in records],
        "evaluated at iteration",
    ),
}


@pytest.mark.parametrize("what", OTHER_QUANTITIES)
def test_other_quantities_are_not_compared_and_what_differs_is_said(what):
    change, key = OTHER_QUANTITIES[what]
    a, b = run("a", rows_of()), run("b", change(rows_of(add=9.0)))
    found = differences([a, b])
    assert {one.outcome for one in found} == {"not compared"} and all(key in one.differing for one in found)
    (sentence,) = sentences(found)
    assert "are not compared between b and a" in sentence and f"{key} is " in sentence
    assert [ranking.runs for ranking in rankings([a, b])] == [["a"], ["b"]]
    assert key in rankings([a, b])[1].differing


@pytest.mark.parametrize("note", [{"not_measured": {"sFID": "no spatial features"}}, {"caution": "few samples"}])
def test_what_follows_from_a_protocol_is_no_difference(note):
    details = rows_of()[0].last.protocol_details
    a, b = run("a", rows_of()), run("b", evaluated(rows_of(), protocol_details=details | note))
    assert not differing_in(a.rows[0], b.rows[0])
    c = run("c", evaluated(rows_of(), protocol_details=details | {"ema": False}))
    assert differing_in(a.rows[0], c.rows[0])


def test_training_is_no_reason_why_fids_are_not_compared():
    b = changed(rows_of(), data={"name": "random_latents"}, training={"batch": 128})
    found = differences([run("a", rows_of()), run("b", b)])
    (sentence,) = sentences(found)
    assert "data.name is " in sentence and "training.batch" not in sentence
    assert all("training.batch" in one.differing for one in found)


def test_files_of_one_name_with_other_contents_are_other_data():
    def reading(ends, sha256=""):
        file = DataFile(bytes=9, ends_sha256=ends, sha256=sha256)
        return run("x", [one.model_copy(update={"data_files": {"/a/d.npz": file}}) for one in rows_of()])

    def alike(a, b):
        return not differing_in(a.rows[0], b.rows[0])

    assert alike(reading("1" * 64), reading("1" * 64, "2" * 64))
    assert not alike(reading("1" * 64), reading("2" * 64))
    assert not alike(reading("1" * 64, "3" * 64), reading("1" * 64, "4" * 64))


def reading(files, name="a"):
    """A run whose cells have read files with these ends, by path."""
    found = {path: DataFile(bytes=9, ends_sha256=end * 64) for path, end in files.items()}
    return run(name, [one.model_copy(update={"data_files": found}) for one in rows_of()])


def test_files_of_one_name_in_several_folders_are_all_compared():
    """As `encode` writes them: train/latents-00000.safetensors, and the same of held_out."""
    a = reading({"/a/train/0.st": "1", "/a/held_out/0.st": "3"})
    copied = reading({"/b/held_out/0.st": "3", "/b/train/0.st": "1"}, "b")
    other = reading({"/a/train/0.st": "2", "/a/held_out/0.st": "3"}, "b")
    assert not differing_in(a.rows[0], copied.rows[0])
    assert differing_in(a.rows[0], other.rows[0]) == {"contents of 0.st": ("1" * 12, "2" * 12)}
    assert set(outcomes(a, other).values()) == {"not compared"}


def test_a_run_and_its_own_export_are_the_same_where_files_share_a_name(tmp_path):
    data = {"name": "latents", "train": ["/a/train/0.st"], "held_out": ["/a/held_out/0.st"]}
    records = changed(reading({"/a/train/0.st": "1", "/a/held_out/0.st": "3"}).records, data=data)
    write_run(tmp_path / "run", 1, records)
    assert tread_bench("report", tmp_path / "run", "--export", tmp_path / "run.json").returncode == 0
    assert "0 (2).st" in (tmp_path / "run.json").read_text()
    sources = [read_run(tmp_path / name) for name in ("run", "run.json")]
    a, b = (Run(name=one.path.name, plan=one.plan, records=one.records) for one in sources)
    assert set(outcomes(a, b).values()) == {"identical"} and len(outcomes(a, b)) == len(TWO)


def test_training_that_differs_is_compared_and_named_but_not_ranked_together():
    a, b = run("a", rows_of()), run("b", changed(rows_of(add=2.0), training={"batch": 128}))
    found = differences([a, b])
    assert {one.outcome for one in found} == {"higher"}
    assert found[0].differing == {"training.batch": ("128", "64")}
    assert [ranking.runs for ranking in rankings([a, b])] == [["a"], ["b"]]


def test_what_a_suite_varies_itself_does_not_keep_its_rows_apart():
    def matrix():
        low, high = (changed(rows_of({"dense": STUDY["dense"]}), training={"learning_rate": lr}) for lr in (1e-4, 1e-3))
        return low + [one.model_copy(update={"row": "high", "cell": f"high-{one.seed}"}) for one in high]

    (ranking,) = rankings([run("a", matrix()), run("b", matrix())])
    assert ranking.runs == ["a", "b"] and len(ranking.members) == 4


def test_rows_that_start_from_weights_are_not_ranked_with_those_of_drawn_ones():
    drawn = rows_of({"dense": STUDY["dense"]})
    start = {"row": "dense", "iteration": 1200, "run": None}
    tuned = changed(
        [one.model_copy(update={"row": "tuned", "cell": f"tuned-{one.seed}"}) for one in drawn],
        training={"start": start},
    )
    found = rankings([run("a", drawn + tuned), run("b", drawn + tuned)])
    assert [[member.row.name for member in one.members] for one in found] == [["dense"] * 2, ["tuned"] * 2]


def test_rows_trained_otherwise_are_not_the_same_row():
    routed = {"2:8": STUDY["2:8"]}
    other = [one.model_copy(update={"config": {**one.config, "routes": ["1:8@0.5"]}}) for one in rows_of(routed)]
    runs = [run("a", rows_of(TWO)), run("b", other)]
    assert differences(runs) == []
    assert len(rows_of_one(runs)) == 4 and "No row is in more than one" in compared(runs).sentences[0]
    assert compared(runs).decisions == {}


def test_rows_of_runs_without_a_common_seed_are_not_tested_against_each_other_in_a_ranking():
    (ranking,) = rankings([run("a", rows_of()), run("b", rows_of(seeds=range(10, 15)))])
    assert ranking.apart == [("a", "b")] and len(ranking.members) == 6


# Speed


def test_speed_is_compared_on_equal_machines_only():
    a, b = run("a", rows_of()), run("b", rows_of({"2:8": ("2:8@0.5", 18.6, 1.6)}))
    on_a, on_b = (one for one in speeds([a, b]) if one.of.row.name == "2:8")
    ratio, low, high = on_b.ratio
    assert on_a.ratio is None and ratio == pytest.approx(1.6 / 1.19, rel=0.02) and low < ratio < high
    elsewhere = [
        one.model_copy(update={"conditions": one.conditions.model_copy(update={"device_name": "Other CPU"})})
        for one in b.records
    ]
    for other in (run("b", elsewhere), run("b", list(b.records), hardware={"cpus": 64})):
        (on_b,) = [one for one in speeds([a, other]) if one.of.run is other]
        assert on_b.ratio is None
        assert "Other CPU" in on_b.machine or "64 CPUs" in on_b.machine


# False claims and power, by simulation


def drawn(rng, runs, seeds, rows=7, effect=0.0):
    """FIDs (runs, sides, rows, seeds) of pairs of runs on two groups of seeds; row 0 has an effect.

    All rows of a run share the effect of their seed, of the same size as the noise of one cell.
    """
    fids = 20 + rng.normal(size=(runs, 2, 1, seeds)) + rng.normal(size=(runs, 2, rows, seeds))
    fids[:, 1, 0] += effect
    return fids


def is_claimed(fids):
    """Whether a difference of each row is claimed, (runs, rows): Welch's tests, Holm-adjusted over the rows."""
    p_values = stats.ttest_ind(fids[:, 0], fids[:, 1], axis=-1, equal_var=False).pvalue
    return holm_of_each(p_values) <= LEVEL


def claims(fids):
    """What `compare` says of one pair of runs, as a line of `is_claimed`."""
    _, rows, seeds = fids.shape
    sides = []
    for side in range(2):
        records = [
            LEAN.model_copy(
                update={
                    "cell": f"{row}-{seed}", "row": f"{row}", "seed": 1000 * side + seed, "reference": "",
                    "evaluations": [evaluation(1200, float(fids[side, row, seed]))],
                }
            )
            for row in range(rows)
            for seed in range(seeds)
        ]  # fmt: skip
        sides.append(Run(name=str(side), plan=PLAN, records=records))
    found = outcomes(*sides)
    return [found[str(row)] in ("lower", "higher") for row in range(rows)]


LEAN = record("x", "", 0, 20.0).model_copy(update={"timing": None, "similarity": None, "gradient_norms": None})
PLAN = plan_of([])


@pytest.mark.parametrize(("seeds", "effect"), [(3, 8.0), (5, 4.0)])
def test_what_is_claimed_is_what_welch_and_holm_allow(seeds, effect):
    rng = np.random.default_rng(16)
    fids = np.concatenate([drawn(rng, 10, seeds), drawn(rng, 20, seeds, effect=effect)])
    expected = is_claimed(fids)
    assert [claims(one) for one in fids] == expected.tolist() and 5 < expected.sum() < 25


@pytest.mark.parametrize("seeds", [3, 5])
def test_two_groups_of_seeds_of_one_suite_are_not_told_apart(seeds):
    """docs/methods/comparing-runs.md states the shares."""
    false = is_claimed(drawn(np.random.default_rng(16), 2000, seeds)).any(axis=1).mean()
    assert false <= 0.05 + 2 * (0.05 * 0.95 / 2000) ** 0.5


def test_a_true_difference_is_found():
    assert is_claimed(drawn(np.random.default_rng(16), 2000, 5, effect=8.0))[:, 0].mean() > 0.8


# The command


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, seeds, version in (("here", range(5), "0.1.0"), ("there", range(1000, 1005), "0.2.0")):
        about = {"suite": {"name": "study"}, "versions": {**VERSIONS, "tread-bench": version}, "hardware": {"cpus": 2}}
        write_run(folder / name, 1, rows_of(STUDY, seeds=seeds), about)
    return folder


@pytest.fixture(scope="module")
def made(two_runs, tmp_path_factory):
    """The command's result, and the folders of the page and of the export."""
    out = tmp_path_factory.mktemp("made")
    done = tread_bench("compare", "here", "there", "--out", out / "page", "--tables", out / "paper", cwd=two_runs)
    return done, out / "page", out / "paper"


def test_two_groups_of_seeds_as_people_compare_them(made):
    done, page, _ = made
    assert done.returncode == 0, done.stderr
    decision, sentence, *_ = done.stdout.splitlines()
    assert decision.startswith("No difference between there and here is found in 7 rows, on ")
    assert sentence.startswith("No difference in FID is found between there and here in any of 7 rows")
    assert done.stdout.splitlines()[-1] == str(page / "index.html")
    text = (page / "index.html").read_text(encoding="utf-8")
    assert "Welch, 5 and 5 seeds" in text and "share no seed" in text
    assert re.search(
        r"<th scope=\"row\">tread-bench</th><td class=\"text\">0.1.0</td><td class=\"text\">0.2.0</td>", text
    )
    assert [path.name for path in (page / "figures").iterdir()] == ["run_differences.svg"]


def test_the_export_holds_every_table_and_the_picture(made):
    kinds = {"run_differences": ("svg", "png", "pdf", "csv", "md", "tex")}
    kinds |= dict.fromkeys(("differences", "rows", "ranking", "speed"), ("csv", "md", "tex"))
    expected = {f"{name}.{kind}" for name, some in kinds.items() for kind in some}
    assert {path.name for path in made[2].iterdir()} == {MARKER, *expected}
    with open(made[2] / "differences.csv", encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 7 and all(0 <= float(line["p"]) <= 1 for line in lines)
    assert all(float(line["Difference, low"]) < 0 < float(line["Difference, high"]) for line in lines)


def test_an_export_says_what_its_folder_says(two_runs, tmp_path):
    assert tread_bench("report", two_runs / "there", "--export", tmp_path / "there.json").returncode == 0
    told = [
        tread_bench("compare", two_runs / "here", other, "--out", tmp_path / f"page{k}").stdout.splitlines()[:-1]
        for k, other in enumerate((two_runs / "there", tmp_path / "there.json"))
    ]
    assert told[0] == told[1] != []


def test_a_run_is_named_after_all_of_its_folder(tmp_path):
    for name in ("run.v2", "run.v3"):
        write_run(tmp_path / name, 1, rows_of(seeds=range(2)))
    done = tread_bench("compare", ".", "../run.v3", "--out", tmp_path / "out", cwd=tmp_path / "run.v2")
    decision, sentence, _ = done.stdout.splitlines()
    assert decision == "run.v3 and run.v2 have the same FID in every row and seed."
    assert sentence == "3 rows of run.v3 and run.v2 have the same FID in every seed."

    found = tread_bench("compare", ".", "../run.v3", "--out", tmp_path / "out", "--json", cwd=tmp_path / "run.v2")
    (document,) = json.loads(found.stdout)["decisions"]
    assert (document["choice"], document["of"], document["to"]) == ("identical", "run.v3", "run.v2")
    assert document["sentence"] == decision


def test_an_empty_cell_of_a_table_is_no_word_and_is_sorted_last(tmp_path):
    """A column without a number in its first row is one of numbers all the same."""
    untimed = [one.model_copy(update={"timing": None}) if one.row == "dense" else one for one in rows_of()]
    runs = [run("a", untimed), run("b", untimed)]
    write(compared(runs), runs, [], tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    table = page.partition('<h2 id="rows">')[2].partition("</section>")[0]
    words = re.findall(r'<th scope="col" class="words"><button type="button">(.*?)</button>', table)
    assert words == ["Run", "Backbone", "Seeds"]
    lines = re.findall(r"<tr><th scope=\"row\".*?</tr>", table)
    dense, *_, routed = (line.partition("</th>")[2] for line in lines if ">a<" in line)
    assert dense.endswith("<td>–</td></tr>") and "<td>reference</td>" in dense
    assert routed.count("data-key") == routed.count("<td")


def test_a_guided_row_of_a_dense_network_has_a_difference_and_is_no_reference():
    lines = compared([run("a", guidance(2))]).rows.rows
    said = {line[0].text: line[6].text for line in lines}
    assert said["dense-none-1"] == said["dense"] == "reference" and said["dense-cfg-1.5"].startswith("−")


def test_the_star_after_a_changed_commit_is_explained(tmp_path):
    for changed_files in (True, False):
        git = {"commit": "0123abc", "changed": changed_files}
        runs = [run(name, rows_of(seeds=range(2)), git=git) for name in "ab"]
        write(compared(runs), runs, [], tmp_path)
        page = (tmp_path / "index.html").read_text(encoding="utf-8")
        assert ("0123abc*" in page) is ("* with uncommitted changes" in page) is changed_files


def test_all_mistakes_are_told_at_once(two_runs, tmp_path):
    write_run(tmp_path / "smoke", 1, rows_of(), {"smoke": True})
    write_run(tmp_path / "empty", 1, [])
    (tmp_path / "notes.json").write_text("{}")
    given = (two_runs / "here", two_runs / "here", "smoke", "empty", "nowhere", "notes.json")
    done = tread_bench("compare", *given, "--out", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and not (tmp_path / "out").exists()
    for told in ("is given twice", "smoke is a smoke run", "empty has no finished cell", "nowhere is not a run folder",
                 "notes.json is not an export"):  # fmt: skip
        assert told in done.stderr
    alone = tread_bench("compare", two_runs / "here", "--out", "out", cwd=tmp_path)
    assert alone.returncode == 2 and "a comparison needs two or more" in alone.stderr


def test_files_of_others_stay(two_runs, tmp_path):
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "rows.csv").write_text("mine")
    done = tread_bench(
        "compare", "here", "there", "--out", tmp_path / "out", "--tables", tmp_path / "paper", cwd=two_runs
    )
    assert done.returncode == 2 and "paper contains rows.csv" in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["paper", "rows.csv"]
    inside = tread_bench("compare", "here", "there", "--out", tmp_path / "p", "--tables", "here/figures", cwd=two_runs)
    assert inside.returncode == 2 and "is in the run folder" in inside.stderr


def test_names_are_text_wherever_they_stand(tmp_path):
    about = {"suite": {"name": HOSTILE}, "versions": {**VERSIONS, "tread-bench": HOSTILE}}
    hostile = [one.model_copy(update={"row": f"{HOSTILE}{one.row}"}) for one in rows_of()]
    for name in ("<b>a", "b"):
        write_run(tmp_path / name, 1, hostile, about)
    done = tread_bench("compare", "<b>a", "b", "--out", "out", "--tables", "paper", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "<b>a" not in page and "&lt;b&gt;a" in page
    with open(tmp_path / "paper" / "rows.csv", encoding="utf-8", newline="") as file:
        assert not any(cell.startswith(("=", "+", "@")) for line in csv.reader(file) for cell in line)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_sorts_and_is_accessible(browser, axe_violations, made, scheme):
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get((made[1] / "index.html").as_uri())
    assert browser.get_log("browser") == []
    assert axe_violations(browser, scheme) == []
    header = browser.find_element("css selector", "#differences ~ .scroll thead th:nth-child(6) > button")
    header.click()
    keys = "[...document.querySelectorAll('#differences ~ .scroll tbody tr')].map(row => +row.cells[5].dataset.key)"
    found = browser.execute_script(f"return {keys}")
    assert len(found) == 7 and found == sorted(found)
    assert fits(browser, DESKTOP) and fits(browser, PHONE)


def moved(evaluation, seed):
    """An FID that is up or down by as much."""
    return evaluation.model_copy(update={"fid": evaluation.fid + (-1) ** seed * (1.0 if seed else 0.5)})


DECISIONS = {
    "b is worse than a in 3 of 3 rows, better in none, on 5 seeds; on digits only.": rows_of(add=9.0),
    "b is better than a in 3 of 3 rows, worse in none, on 4 seeds; on digits only.": rows_of(add=-9.0, seeds=range(4)),
    "Undecided: b is better than a in 2 of 3 rows, worse in 1, on 5 seeds; on digits only.":
        [*rows_of({"dense": TWO["dense"]}, add=9.0), *rows_of({name: TWO[name] for name in [*TWO][1:]}, add=-9.0)],
    "No difference between b and a is found in 3 rows, on 5 seeds; on digits only.":
        [one.model_copy(update={"evaluations": [moved(one.last, one.seed)]}) for one in rows_of()],
    "b and a have the same FID in every row and seed.": rows_of(),
    "Undecided: one seed is too few to tell b from a.": rows_of(add=1.0, seeds=[0]),
    "No decision: the FIDs of b and a are not comparable.": changed(rows_of(), data={"name": "random_latents"}),
}  # fmt: skip


@pytest.mark.parametrize("said", DECISIONS)
def test_a_decision_on_two_runs_is_one_sentence_of_at_most_twenty_words(said):
    earlier = rows_of(seeds=[0]) if "one seed" in said else rows_of()
    made = compared([run("a", earlier), run("b", DECISIONS[said])])
    assert [*made.decisions] == [said] and len(said.split()) <= 20
