"""Every study gets its picture, with the figures of its records, and true sentences."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import synthetic_studies as made
from synthetic_records import DRAWN, NOTHING_MEASURED, asked, evaluation, pictures_of, record, study, view_of
from synthetic_studies import STUDIES, drawn

from tread_bench.reports import requested
from tread_bench.reports.decision import ranked_candidates
from tread_bench.reports.differences import ITERATIONS
from tread_bench.reports.figures import pictures as figures
from tread_bench.reports.figures.draw import draw
from tread_bench.reports.figures.style import WORSE, theme
from tread_bench.reports.frame import results_frame
from tread_bench.reports.questions import depths, gap, guidance, speed
from tread_bench.reports.row import by_architecture, side_by_side
from tread_bench.reports.study import Study

OWN = {"selection_rate": {"rates"}, "location_scaling": {"depths"}}  # pictures that others do not have


@pytest.fixture(scope="module")
def rows():
    return {name: Study(records()).rows for name, records in STUDIES.items()}


def alone(figure):
    """One picture, alone: all of a study take seconds."""
    with theme():
        return draw(figure)


def rates_of(records):
    return alone(figures.rates(figures.labelled(Study(records).rows, results_frame(records))))


def minus(text):
    return text.replace("-", "−")


def lasts(records, row):
    return np.array([r.last.fid for r in sorted(records, key=lambda r: r.seed) if r.row == row])


@pytest.mark.parametrize("name", OWN)
def test_a_study_gets_its_own_pictures_each_with_words_and_numbers(name):
    assert {*drawn(name)} - {*DRAWN} == OWN[name]
    for picture in drawn(name).values():
        assert picture.description and picture.caption.strip().endswith(".")
        assert all(line.keys() == picture.numbers[0].keys() for line in picture.numbers) and picture.table


def test_in_a_smoke_run_no_row_is_the_lowest_and_no_difference_has_a_colour(rows):
    assert not any(row.is_lowest_fid for row in Study(made.rates(), is_smoke=True).rows)
    assert sum(row.is_lowest_fid for row in rows["selection_rate"]) == 1
    of_smoke, in_earnest = (pictures_of(study(), is_smoke) for is_smoke in (True, False))
    for name in ("gain", "route_placement"):
        assert WORSE.encode() in in_earnest[name].svg and WORSE.encode() not in of_smoke[name].svg


def test_rates_run_from_dense_at_0():
    records = made.rates()
    table = {line["share of tokens that bypasses"]: line for line in rates_of(records).numbers}
    assert list(table) == ["0", "0.25", "0.5", "0.75"] and table["0"]["row"] == "dense"
    assert {line["line"] for line in table.values()} == {"tread 2:8"}
    for rate, row in (("0", "dense"), ("0.75", "tread-0.75")):
        assert table[rate]["FID"] == f"{lasts(records, row).mean():.2f}"
    assert rates_of(made.rates(2, (0.5,))) is None  # one rate is no line

    # Beside another dense row they are another line.
    others = []
    for one in records:
        others.append(one.model_copy(update={key: f"lora-{getattr(one, key)}" for key in ("row", "cell", "reference")}))
    found = {(line["line"], line["row"]) for line in rates_of([*records, *others]).numbers}
    assert len(found) == 8 and ("tread 2:8 beside lora-dense", "lora-dense") in found


def test_depths_pair_each_rule_with_the_dense_row_of_its_depth(rows):
    records, found = made.depths(), rows["location_scaling"]
    table = {(line["rule"], line["blocks"]): line for line in alone(depths.figure(found)).numbers}
    gains = lasts(records, "absolute-18") - lasts(records, "dense-18")
    assert table["absolute", "18"]["ΔFID to own dense"] == minus(f"{gains.mean():.3f}")
    assert len(table) == 6 and table["absolute", "12"]["routes"] == table["relative", "12"]["routes"] == "2:8@0.5"
    ((*members,),) = side_by_side(found)  # in the order of their size
    assert [part[0].architecture for part in by_architecture(members)] == [f"DiT (depth {n})" for n in (6, 12, 18)]


@pytest.mark.parametrize("name", ["absolute backbone.depth=12", "absolute-12", "absolute-d12", "absolute_depth12"])
def test_a_rule_is_the_row_without_its_depth(name):
    assert depths.stem(Study([record(name, "2:8@0.5", 0, 20.0)]).rows[0]) == "absolute"


def test_dense_training_with_a_loss_or_a_schedule_is_not_the_reference(rows):
    for name in ("methods", "finetune"):
        assert [row.name for row in rows[name] if row.is_dense] == ["dense"] == [rows[name][0].name]
    other = next(row for row in rows["finetune"] if row.name == "dense-low-rate")
    assert other.difference(ITERATIONS).n == 5


def test_placements_are_of_tread_alone():
    assert "route_placement" not in drawn("methods")
    mixed = [*study(1), *(r for r in made.methods(1) if r.method == "drop")]
    assert not any(line[0].startswith("drop") for line in pictures_of(mixed)["route_placement"].table)


def test_guidance_pairs_every_rule_with_its_checkpoint_without_guidance(rows):
    records, picture = made.guidance(), alone(guidance.figure(rows["guidance"]))
    lines = {(line["checkpoint"], line["rule"], line["scale"]): line for line in picture.numbers}
    assert len(picture.table) == len(lines) == 2 * (1 + len(made.RULES) * len(made.SCALES) + 1)
    gains = lasts(records, "tread-sparse-1.5") - lasts(records, "tread-none-1")
    best = lines["tread", "sparse (strong 0.5, weak 0.9)", "1.5"]
    assert best["FID"] == f"{lasts(records, 'tread-sparse-1.5').mean():.2f}"
    assert float(best["ΔFID to no guidance"]) == pytest.approx(gains.mean(), rel=1e-3)
    assert (best["GMACs per image"], best["MACs, no guidance = 1"]) == ("0.72", "1.2")
    assert lines["dense", "no guidance", "1"]["GMACs per image"] == "0.6"


def test_a_rule_that_ran_at_one_scale_is_not_judged(rows):
    several = guidance.scope(rows["guidance"])
    assert "path drop ran at one scale only, so that rule is not compared" in several and "optimistic" in several
    told = {name: said for name, _, said in guidance.statements(rows["guidance"])}
    assert set(told) == {"dense", "tread"} and "the other 3 rules in the table" in told["tread"]
    said = guidance.summary(rows["guidance"])
    assert said.count("with sparse (strong 0.5, weak 0.9) at scale 1.5") == 2 and "path drop" not in said
    assert "best of 4 scales" in told["dense"] and "route" not in guidance.summary(rows["guidance"])


def test_a_smaller_network_that_is_a_weak_model_alone_is_no_checkpoint_and_changes_no_name(rows):
    assert {row.group.backbone for row in rows["guidance"]} > {row.group.backbone for row in rows["methods"]}
    assert [made.name for made in guidance.checkpoints(rows["guidance"])] == ["dense", "tread"]


def test_a_label_of_guidance_names_its_settings_and_the_csv_keeps_its_short_text():
    settings = {"name": "sparse", "strong": 0.25, "weak": 0.9, "decay": "cosine", "snapshot": 1, "label_weak": True}
    one = asked(record("x", "", 0, 20.0), sampling={"guidance": settings, "guidance_scale": 3})
    words = "sparse (strong 0.25, weak 0.9, cosine decay, weak branch from iteration 1) at scale 3"
    assert requested.guided(one) == words
    assert results_frame([one])["guidance"][0] == "sparse 0.25/0.9 cosine from iteration 1"


def test_of_rules_at_one_scale_each_none_is_called_best_nor_is_one_that_does_not_help():
    single = [r for r in made.guidance() if not requested.is_guided(r) or requested.guidance_scale(r) == 1.5]
    said = guidance.summary(Study(single).rows)
    assert "none is called best" in said and "lowest" not in said
    worse = []
    for one in made.guidance():
        bad = {"evaluations": [evaluation(1200, 40.0 + one.seed)]} if requested.is_guided(one) else {}
        worse.append(one.model_copy(update=bad))
    said = guidance.summary(Study(worse).rows)
    assert said.count("without guidance") == 2 and "with " not in said.replace("without", "")


def test_rows_under_guidance_are_told_apart_and_never_called_the_reference(rows):
    labels = [row.name for row in rows["guidance"]]
    assert len(set(labels)) == len(labels)
    view = view_of([one for one in made.guidance() if one.row != "small"])
    place = [row.short_label for row in view.members].index("dense-cfg-1.5")
    cell = {title: column.entries[place].text for title, column in view.columns.items()}
    assert (cell["Guidance"], cell["Scale"], cell["Sampling GMACs"]) == ("cfg", "1.50", "1.200")
    assert cell["Δ FID"].startswith("−") and view.columns["Δ FID"].entries[0].text == "reference"
    assert cell["Ideal"] == "–"  # it trains nothing


def test_the_gap_is_paired_with_the_same_seed_at_rate_0(rows):
    picture = alone(gap.figure(rows["train_inference_gap"]))
    rate = "rate γ: share of tokens that bypasses"
    lines = {(line["row"], line[rate]): float(line[gap.EXCESS]) for line in picture.numbers}
    assert len(picture.table) == len(lines) == 3 * len(made.GAMMAS)
    factor = np.mean([1 + 0.05 * seed for seed in range(4)])
    assert lines["dense", "0.5"] == pytest.approx(factor * 0.8 * 0.25, abs=1e-3)
    assert lines["dense", "0"] == 0
    assert lines["tread-2:8", "0.9"] == pytest.approx(factor * 0.1 * 0.81, abs=1e-3)


def test_several_routes_are_several_bars_and_a_method_with_a_loss_stands_beside():
    two = {"two": [], "two-mae": [{"name": "mae"}]}
    records = [asked(record(row, "2:4@0.5,6:8@0.5", 0, 16.0), auxiliary=loss) for row, loss in two.items()]
    one = [record("dense", "", 0, 17.0), record("2:8", "2:8@0.5", 0, 17.2)]
    several = pictures_of([*one, *records])["route_placement"]
    assert {line[0] for line in several.table} == {"dense", "2:8", "two", "two-mae"}
    assert "routes of one row" in several.caption


def test_the_fids_behind_placement_are_those_that_are_compared():
    lines = {line["row"]: line for line in drawn("equal_cost")["route_placement"].numbers}
    fids = {row: float(line["FID at equal training MACs"]) for row, line in lines.items()}
    for row in ("2:8", "0:8", "smaller", "dense-again"):
        difference = float(lines[row]["ΔFID"].replace("−", "-"))
        assert fids[row] - fids["dense"] == pytest.approx(difference, abs=0.011)


def test_neither_a_dense_control_nor_a_taught_row_is_ranked(rows):
    assert "dense-low-rate" not in {row.name for row in ranked_candidates(rows["finetune"]) if row.spans}
    names = {row.name for row in ranked_candidates(Study(taught(made.methods())).rows)}
    assert "repa" not in names and "tread" in names and "dense" not in names


def test_the_price_counts_extra_parameters_and_says_what_step_was_timed(rows):
    of_methods = {row.name: speed.price_of(row) for row in rows["methods"]}
    assert "adds 140,000 parameters in training" in of_methods["repa"]
    of_schedules = {row.name: speed.price_of(row) for row in rows["finetune"]}
    assert "of a routed step" in of_schedules["tread-dense-end"]
    assert "its routed training step" in of_schedules["tread-dense-end"]


@pytest.mark.parametrize(
    ("speedup", "words"),
    [
        (1.0, "not distinguishable from dense in speed"),
        (0.8, "0.80 times as fast"),
        (1.8, "For 36 % of it the device waits for the host: it says nothing about larger batches."),
    ],
)
def test_speed_is_not_talked_up(speedup, words):
    (row,) = Study([record("2:8", "2:8@0.5", 0, 18.0, speedup)]).rows
    assert words in speed.price_of(row) and "saves 28 % of the forward MACs" in speed.price_of(row)
    assert ("host" in speed.price_of(row)) == (speedup == 1.8)
    (unknown,) = Study([record("2:8", "2:8@0.5", 0, 18.0, timing=None)]).rows
    assert "its speed was not measured" in speed.price_of(unknown)


def test_the_csv_tells_rows_apart():
    frame = results_frame([*made.methods(1), *made.guidance(1), *made.finetune(1)])
    line = frame[frame.row == "sprint"].iloc[-1]
    assert (line.method_params, line.schedule, line.auxiliary) == (8300, "dense from 0.8", "")
    assert frame[frame.row == "tread+repa"].iloc[-1].auxiliary == "repa"
    guided = frame[frame.row == "tread-sparse-1.8"].iloc[-1]
    assert (guided.guidance, guided.guidance_scale, guided.sampling_macs) == ("sparse 0.5/0.9", 1.8, 720_000_000)
    assert guided.checkpoint == "tread" and frame[frame.row == "dense"].iloc[-1].guidance == "none"
    assert isinstance(frame, pd.DataFrame)


@pytest.mark.parametrize("name", OWN)
def test_the_page_of_a_study_renders_with_every_picture_described(study_page, name):
    page = study_page(name).read_text(encoding="utf-8")
    assert sorted(re.findall(r'<svg[^>]* aria-labelledby="([\w-]+)-title', page)) == sorted(drawn(name))
    assert len(page) < 700_000


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_that_failed_altogether_still_gets_its_page(page_of, name):
    lost = {"status": "failed", "reason": "diverged", **NOTHING_MEASURED, "gap": None}
    page = page_of([one.model_copy(update=lost) for one in STUDIES[name]() if one.seed == 0])
    assert "No cell of this comparison has finished" in page


def taught(records, target="a" * 64):
    """The records, of which those with REPA have their target features from a network; another one judges."""
    found = []
    for one in records:
        judged = [
            e.model_copy(update={"protocol_details": {"feature_network_sha256": "a" * 64}}) for e in one.evaluations
        ]
        features = target if "repa" in requested.auxiliary(one) else ""
        found.append(one.model_copy(update={"target_features_sha256": features, "evaluations": judged}))
    return found


def test_a_row_that_its_judge_has_taught_is_shown_but_not_ranked(page_of):
    assert min(lasts(made.methods(), row).mean() for row in made.METHODS) == lasts(made.methods(), "repa").mean()
    found = Study(taught(made.methods())).rows
    assert {row.name for row in found if row.is_evaluated_by_teacher} == {"repa", "tread+repa"}
    assert [row.name for row in found if row.is_lowest_fid] == ["dense"]
    page = page_of(taught(made.methods(2)))
    assert page.count("<small>evaluated with its teacher’s features, not ranked</small>") == 2
    assert "repa and tread+repa were trained towards features of the network that FID" in page

    # Targets of another network leave a row in the ranking.
    found = Study(taught(made.methods(), "b" * 64)).rows
    assert not any(row.is_evaluated_by_teacher for row in found)
    assert [row.name for row in found if row.is_lowest_fid] == ["repa"]
