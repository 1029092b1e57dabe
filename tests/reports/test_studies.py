"""Every study gets its picture, with the figures of its records, and true sentences."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
import synthetic_studies as made
from synthetic_records import DRAWN, NOTHING_MEASURED, drawn_alone, evaluation, record, render, study
from synthetic_studies import STUDIES, drawn

from tread_bench.reports.claims import contrasts, depths, guidance
from tread_bench.reports.claims.families import scope, statements, summary
from tread_bench.reports.claims.verdict import answers
from tread_bench.reports.figures.depths import depths as draw_depths
from tread_bench.reports.figures.differences import methods as draw_methods
from tread_bench.reports.figures.gap import _figure as gap_figure
from tread_bench.reports.figures.gap import _with_rates as with_rates
from tread_bench.reports.figures.gap import gap
from tread_bench.reports.figures.gap import points_of as gap_points
from tread_bench.reports.figures.guidance import guidance as draw_guidance
from tread_bench.reports.figures.pictures import pictures
from tread_bench.reports.figures.placement import route_placement
from tread_bench.reports.figures.rates import lines_of
from tread_bench.reports.figures.rates import rates as draw_rates
from tread_bench.reports.figures.schedule import schedules
from tread_bench.reports.figures.style import row_key
from tread_bench.reports.frame import results_frame
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture, side_by_side
from tread_bench.reports.rows.comparison import comparison
from tread_bench.reports.tables.view import comparison_view

OWN = {
    "selection_rate": {"rates"},
    "location_scaling": {"depths"},
    "multi_route": {"route_placement"},
    "finetune": {"methods", "schedule"},
    "equal_cost": {"route_placement", "route_placement_iterations", "placement_map_iterations"},
    "guidance": {"guidance"},
    "methods": {"methods"},
    "objectives": {"routing_gain"},
    "train_inference_gap": {"gap"},
}


SOME_STUDIES = [
    pytest.param(name, marks=() if name in ("objectives", "selection_rate") else pytest.mark.slow) for name in STUDIES
]

PANEL_PER_ROW = ("similarity", "across_times", "gradients")
DRAW = {
    "selection_rate": draw_rates,
    "location_scaling": draw_depths,
    "multi_route": route_placement,
    "finetune": schedules,
    "guidance": draw_guidance,
    "methods": draw_methods,
    "train_inference_gap": gap,
}


@cache
def own(name):
    """The picture that a study is about, alone: all of them take seconds."""
    return drawn_alone(DRAW[name], comparison(STUDIES[name]()))


@pytest.fixture(scope="module")
def rows():
    return {name: comparison(records()) for name, records in STUDIES.items()}


def minus(text):
    return text.replace("-", "−")


def lasts(records, row):
    return np.array([r.last.fid for r in sorted(records, key=lambda r: r.seed) if r.row == row])


def verdict_of(rows):
    (found,) = answers(rows)
    return found.at_iterations, found.cost


@pytest.mark.parametrize("name", SOME_STUDIES)
def test_a_study_gets_its_own_pictures_each_with_words_and_numbers(name):
    found = {picture.partition("-")[0] for picture in drawn(name)}
    assert found - {*DRAWN} == OWN[name] - {*DRAWN} and OWN[name] <= found
    for picture in drawn(name).values():
        assert picture.description and picture.caption.strip().endswith(".")
        assert all(line.keys() == picture.numbers[0].keys() for line in picture.numbers) and picture.table


@pytest.mark.parametrize("name", ["location_scaling", "guidance", "selection_rate", "methods"])
def test_the_marks_of_a_picture_carry_the_rows_of_its_numbers(name):
    marked = set(re.findall('data-row="([^"]+)"', own(name).inline))
    assert marked == {row_key(line["row"]) for line in own(name).numbers}


@pytest.mark.parametrize("name", SOME_STUDIES)
def test_in_a_smoke_run_nothing_is_judged_and_no_scale_is_best(name, monkeypatch):
    """Of pictures with a panel per row, which take seconds, in no run at all: they are taken from one that is none."""
    monkeypatch.setattr("tread_bench.reports.figures.pictures._PANEL_PER_ROW", ())
    found = {picture.name: picture for picture in pictures(comparison(STUDIES[name](), is_smoke=True))}
    panels = {one: drawn(name)[one] for one in drawn(name) if one.partition("-")[0] in PANEL_PER_ROW}
    assert found.keys() | panels.keys() == drawn(name).keys()
    for picture in [*found.values(), *panels.values()]:
        told = f"{picture.caption}{picture.description}{picture.svg.decode()}{picture.table}"
        assert not re.search("[Bb]est scale|significant", told)


@pytest.mark.parametrize("name", ["guidance", "location_scaling"])
def test_the_order_of_records_changes_no_picture(name):
    again = drawn_alone(DRAW[name], comparison(reversed(STUDIES[name]())))
    assert again.table == own(name).table and again.svg == own(name).svg


def test_a_run_of_routes_draws_none_of_them():
    assert {picture.name for picture in pictures(comparison(study(2)))} == {*DRAWN}


def test_rates_run_from_dense_at_0():
    records, picture = made.rates(), own("selection_rate")
    table = {line[2]: line[1:] for line in picture.table}
    assert list(table) == ["0", "0.25", "0.5", "0.75"]
    gains = lasts(records, "tread-0.75") - lasts(records, "dense")
    assert table["0.75"][4] == f"+{gains.mean():.2f}" and table["0"][4] == "–"
    assert table["0"][2] == f"{lasts(records, 'dense').mean():.2f}"


def test_one_rate_is_no_line():
    assert drawn_alone(draw_rates, comparison(made.rates(2, (0.5,)))) is None


def test_routes_that_are_compared_with_several_dense_rows_have_a_line_beside_each():
    """As where all weights are trained, or adapters."""

    def beside(reference, fid):
        rows = {reference: "", f"{reference}-routed-0.25": "2:8@0.25", f"{reference}-routed-0.5": "2:8@0.5"}
        return [
            made.record(name, routes, seed, fid + number, cell=f"{name}-{seed}", reference=f"{reference}-{seed}")
            for number, (name, routes) in enumerate(rows.items())
            for seed in range(3)
        ]

    lines = lines_of(comparison([*beside("full", 20.0), *beside("adapters", 30.0)]))
    assert [line.name for line in lines] == ["tread 2:8 beside adapters", "tread 2:8 beside full"]
    for line in lines:
        reference = line.name.split()[-1]
        expected = [(0.0, reference), (0.25, f"{reference}-routed-0.25"), (0.5, f"{reference}-routed-0.5")]
        assert [(rate, row.name) for rate, row in line.rows] == expected


def test_depths_pair_each_rule_with_the_dense_row_of_its_depth():
    records, picture = made.depths(), own("location_scaling")
    assert [line[1:4] for line in picture.table[:3]] == [
        ("absolute", "6", "2:2@0.5"), ("absolute", "12", "2:8@0.5"), ("absolute", "18", "2:14@0.5")
    ]  # fmt: skip
    gains = lasts(records, "absolute-18") - lasts(records, "dense-18")
    assert picture.table[2][6] == minus(f"{gains.mean():.2f}")


def test_a_row_where_both_rules_mean_one_route_is_a_point_of_both():
    table = {line[1:3]: line[3:] for line in own("location_scaling").table}
    assert len(table) == 6 and table["absolute", "12"] == table["relative", "12"]


def test_two_rules_are_told_against_each_other_at_every_depth(rows):
    records, said = made.depths(), depths.summary(rows["location_scaling"])
    (at_6, at_12, at_18) = said.rstrip(".").split("; in ")
    gains = lasts(records, "absolute-18") - lasts(records, "relative-18")
    assert at_12 == "12 blocks both rules give 2:8@0.5"
    assert at_18.startswith("18 blocks absolute routes have the lower FID")
    assert minus(f"absolute minus relative {gains.mean():.2f} FID") in at_18
    assert at_6.startswith("In 6 blocks absolute and relative routes do not differ significantly")
    assert depths.summary(rows["selection_rate"]) == depths.summary(rows["objectives"]) == ""


@pytest.mark.parametrize("name", ["absolute backbone.depth=12", "absolute-12", "absolute-d12", "absolute_depth12"])
def test_a_rule_is_the_row_without_its_depth(name):
    assert depths.stem(comparison([record(name, "2:8@0.5", 0, 20.0)])[0]) == "absolute"


def test_depths_are_in_the_order_of_their_size(rows):
    ((*members,),) = side_by_side(rows["location_scaling"])
    assert [part[0].architecture for part in by_architecture(members)] == [f"DiT (depth {n})" for n in (6, 12, 18)]


def test_methods_show_what_each_adds_and_saves():
    records, table = made.methods(), {line[1]: line for line in own("methods").table}
    assert len(table) == len(made.METHODS) - 1 and "dense" not in table
    gains = lasts(records, "repa") - lasts(records, "dense")
    assert table["dense + repa"][2].startswith(minus(f"{gains.mean():.2f} ["))
    assert table["dense + repa"][4:7] == ("0", "140,000", "1.05")
    assert table["mask"][4:6] == ("118,000", "0") and table["tread"][4:6] == ("0", "0")
    routed, dense = (next(r for r in records if r.row == row).cost for row in ("sprint", "dense"))
    assert table["sprint"][6] == f"{0.9 * routed.train_step_macs / dense.train_step_macs:.2f}"


def test_a_method_with_a_loss_is_another_method_and_dense_with_one_is_not_the_reference(rows):
    assert [row.name for row in rows["methods"] if row.is_dense] == ["dense"]


def test_placements_are_of_tread_alone(rows):
    assert drawn_alone(route_placement, rows["methods"]) is None
    mixed = comparison([*study(1), *(r for r in made.methods(1) if r.method == "drop")])
    placement = drawn_alone(route_placement, mixed)
    assert not any(line[0].startswith("drop") for line in placement.table)


def test_the_schedule_tells_how_much_was_routed_at_each_evaluation(rows):
    picture = own("finetune")
    shares = [line[3] for line in picture.table if line[0] == "tread-dense-end"]
    assert shares == ["1.00", "1.00", "1.00", "1.00", "0.00"]
    assert [line[3] for line in picture.table if line[0] == "dense"] == ["–"] * 5
    assert "lr 0.0002 from 0.75" in picture.description


def test_dense_training_with_a_schedule_is_not_the_reference(rows):
    assert [row.name for row in rows["finetune"] if row.is_dense] == ["dense"]
    other = next(row for row in rows["finetune"] if row.name == "dense-low-rate")
    assert other.difference("fid").n == 5
    assert rows["finetune"][0].name == "dense"


def test_each_change_is_told_beside_the_same_row_without_it(rows):
    records, said = made.finetune(), contrasts.summary(rows["finetune"])
    found = {(one.base.name, one.row.name): one.difference for one in contrasts.contrasts(rows["finetune"])}
    assert found.keys() == {
        ("dense", "dense-low-rate"), ("tread", "tread-warm-up"), ("tread", "tread-dense-end"),
        ("tread", "tread-dense-half"),
    }  # fmt: skip
    gains = lasts(records, "tread-dense-end") - lasts(records, "tread")
    assert found["tread", "tread-dense-end"].mean == pytest.approx(gains.mean())
    assert minus(f"by {gains.mean():.2f} with dense from 0.8 with lr 0.0001 (") in said
    apart = {"lr 0.0002 from 0.75", "warm-up 0.2"}  # of the first not beyond chance, by Holm
    assert set(re.findall(r"with ([^(]*) \([^(]*, not significant\)", said)) == apart


def test_several_routes_stand_beside_the_one_and_a_loss_beside_none(rows):
    found = {(one.base.name, one.row.name, one.change) for one in contrasts.contrasts(rows["multi_route"])}
    assert found == {
        ("tread-2:8", "two", "routes 2:4@0.5,6:8@0.5"),
        ("tread-2:8", "three", "routes 1:2@0.5,4:6@0.5,8:9@0.5"), ("two", "two-mae", "mae"),
    }  # fmt: skip
    assert "too few to decide" in contrasts.summary(comparison(made.multi_route(1)))


@pytest.mark.parametrize("name", ["selection_rate", "methods", "guidance", "objectives", "location_scaling"])
def test_methods_rates_and_routes_have_no_such_sentence(rows, name):
    assert contrasts.summary(rows[name]) == ""


def test_guidance_pairs_every_rule_with_its_checkpoint_without_guidance():
    records, picture = made.guidance(), own("guidance")
    lines = {line[1:4]: line[1:] for line in picture.table}
    assert len(picture.table) == 2 * (1 + len(made.RULES) * len(made.SCALES) + 1)
    gains = lasts(records, "tread-sparse-1.5") - lasts(records, "tread-none-1")
    best = lines["tread", "sparse (strong 0.5, weak 0.9) (best scale)", "1.5"]
    assert best[3] == f"{lasts(records, 'tread-sparse-1.5').mean():.2f}" and best[5] == minus(f"{gains.mean():.2f}")
    assert best[-2:] == ("0.7200", "1.20") and lines["dense", "none", "–"][-2:] == ("0.6000", "1.00")
    assert ("dense", "cfg (interval 0.1–0.8) (best scale)", "1.8") in lines


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
    lines = {line[1:4]: line for line in own("guidance").table}
    assert (
        lines["dense", "autoguidance (weak branch by row small from iteration 1200) (best scale)", "1.8"][-1] == "1.50"
    )


def test_a_label_of_guidance_names_its_settings_and_the_csv_keeps_its_short_text():
    settings = {"name": "sparse", "strong": 0.25, "weak": 0.9, "decay": "cosine", "snapshot": 1, "label_weak": True}
    one = made.asked(record("x", "", 0, 20.0), sampling={"guidance": settings, "guidance_scale": 3})
    words = "sparse (strong 0.25, weak 0.9, cosine decay, weak branch from iteration 1) at scale 3"
    assert requested.guided(one) == words
    assert results_frame([one])["guidance"][0] == "sparse 0.25/0.9 cosine from iteration 1"


def test_of_rules_at_one_scale_each_none_is_called_best():
    single = [r for r in made.guidance() if not requested.is_guided(r) or requested.guidance_scale(r) == 1.5]
    said = guidance.summary(comparison(single))
    assert "none is called best" in said and "lowest" not in said


def test_where_no_rule_helps_no_guidance_is_called_best():
    worse = [
        r if not requested.is_guided(r) else r.model_copy(update={"evaluations": [evaluation(1200, 40.0 + r.seed)]})
        for r in made.guidance()
    ]
    said = guidance.summary(comparison(worse))
    assert said.count("without guidance") == 2 and "with " not in said.replace("without", "")


def test_rows_under_guidance_are_told_apart_and_never_called_the_reference(rows):
    labels = [row.label for row in rows["guidance"]]
    assert len(set(labels)) == len(labels)
    (guided,) = (part for part in by_architecture(rows["guidance"]) if len(part) > 1)
    view = comparison_view(guided)
    titles = [title for title, _ in view.headers]
    shown = {row.short_label: dict(zip(titles, cells, strict=True)) for row, cells in view.rows}
    cell = shown["dense-cfg-1.5"]
    assert (cell["Guidance"].text, cell["Scale"].text, cell["Sampling GMACs"].text) == ("cfg", "1.50", "1.200")
    assert cell["Δ FID"].text.startswith("−") and shown["dense"]["Δ FID"].text == "reference"
    assert cell["Ideal"].text == "–"  # it trains nothing


def test_picture_and_table_agree_on_what_the_reference_is():
    """Where all rows are guided, and where routes are compared with a route."""
    sampling = {"sampler": "euler", "steps": 12, "guidance": {"name": "cfg"}, "guidance_scale": 1.5}
    guided = [made.asked(one, sampling=sampling) for one in study(2)]
    assert {name for name, words in said_in_both(guided) if words == ("reference", "reference")} == {"dense"}

    named = [one.model_copy(update={"reference": ""}) for one in study(2) if one.routes]
    for one in named:
        one.config["training"] |= {"budget": {"macs_of": "2:8"}} if one.row != "2:8" else {}
    assert {name for name, words in said_in_both(named) if words == ("reference", "reference")} == {"2:8"}


def said_in_both(records):
    """(name, what the picture of placement and the table say of its difference) of each row."""
    rows = comparison(records)
    picture = drawn_alone(route_placement, rows)
    words = dict(part.split(": ") for part in picture.description.partition(" interval. ")[2].split("; "))
    view = comparison_view(rows)
    place = [title for title, _ in view.headers].index("Δ FID")
    return [(row.name, (words[row.label], shown[place].text)) for row, shown in view.rows]


def test_the_gap_is_paired_with_the_same_seed_at_rate_0():
    table = {line[:2]: line for line in own("train_inference_gap").table}
    assert len(table) == 3 * len(made.GAMMAS)
    factor = np.mean([1 + 0.05 * seed for seed in range(4)])
    assert table["dense", "0.5"][4] == f"+{factor * 0.8 * 0.25:.5f}" and table["dense", "0"][4] == "+0.00000"
    mean = 1 - 0.1 * 0.9 * np.mean(np.arange(1, 13)) / 12
    assert table["tread-2:8", "0.9"][-2:] == (f"{mean:.3f}", f"{1 - 0.1 * 0.9:.3f}")


def test_the_gap_names_marks_and_tells_the_rates_that_each_row_gives_for_sparse_guidance(rows):
    """Mean loss 0.303 + 1.075 · strength γ², strong up to 5 % and weak from 50 % above 0.303."""
    picture = own("train_inference_gap")
    rates = {"dense": (0.1, 0.5), "tread-0:10": (0.2, 0.7), "tread-2:8": (0.3, 0.9)}
    branch = picture.headers.index("branch of Sparse Guidance")
    named = [(line[0], line[1], line[branch]) for line in picture.table if line[branch] != "–"]
    assert named == [
        (row, f"{rate}", "weak" if k else "strong") for row, both in rates.items() for k, rate in enumerate(both)
    ]
    points = [point for row in rows["train_inference_gap"] for point in gap_points(row)]
    loss = gap_figure(with_rates(points)).axes[0]
    ringed = [line.get_xdata()[0] for line in loss.lines if line.get_fillstyle() == "none"]
    assert ringed == [rate for both in rates.values() for rate in both]
    told = "dense: 0.1 and 0.5; tread-0:10: 0.2 and 0.7; tread-2:8: 0.3 and 0.9 (the largest measured)"
    assert told in picture.caption and told in picture.description
    assert "at most 5 % above" in picture.caption and "at least 50 % above" in picture.caption


def test_a_network_that_no_rate_harms_gives_no_rates():
    flat = [r.model_copy(update={"gap": made._gap(0.0, r.seed)}) for r in made.gaps()]
    picture = drawn_alone(gap, comparison(flat))
    assert "dense: none, since the loss is still low at the largest rate measured" in picture.caption
    assert {line[picture.headers.index("branch of Sparse Guidance")] for line in picture.table} == {"–"}


def test_objectives_are_judged_apart_and_their_losses_never_together(rows):
    (members,) = side_by_side(rows["objectives"])
    assert [part[0].architecture for part in by_architecture(members)] == ["edm", "flow"]
    assert "under edm" in summary(members) and "validation losses are different quantities" in scope(members)
    assert "parameters" not in scope(members) and len(statements(members)) == 2
    assert "noise levels σ" in drawn("objectives")["across_times-edm"].caption
    assert "times t" in drawn("objectives")["across_times-flow"].caption
    assert all(
        {r.reference.partition("-")[0] for r in row.records} == {requested.objective(row.first)} for row in members
    )


def test_several_routes_are_several_bars_and_the_added_loss_is_named():
    several = own("multi_route")
    assert any("mae" in line[0] for line in several.table)
    assert "over all routes of the row" in several.caption


@pytest.mark.parametrize(
    ("name", "noun"), [("selection_rate", "3 rates"), ("methods", "9 methods"), ("finetune", "4 rows")]
)
def test_the_verdict_calls_rows_what_they_are(rows, name, noun):
    quality, _ = verdict_of(rows[name])
    assert quality.startswith(f"Of {noun}, ")
    assert noun == "3 rates" or "route" not in quality.partition("; ")[0]


def test_a_dense_control_is_never_called_the_best_of_the_routed_rows(rows):
    better = [
        r.model_copy(update={"evaluations": [evaluation(1200, 1.0 + r.seed)]}) if r.row == "dense-low-rate" else r
        for r in made.finetune()
    ]
    controlled = comparison(better)
    assert next(row for row in controlled if row.is_lowest_fid).name == "dense-low-rate"
    assert "tread-dense-end" in verdict_of(controlled)[0].partition(" has the lowest FID")[0]
    alone = [row for row in controlled if not row.spans]
    quality, cost = verdict_of(alone)
    assert quality.startswith("dense-low-rate has an FID of") and "routed" not in cost


def test_the_verdict_counts_extra_parameters_and_says_what_step_was_timed(rows):
    _, cost = verdict_of(rows["methods"])
    assert "adds 140,000 parameters in training" in cost
    _, cost = verdict_of(rows["finetune"])
    assert "of a routed step" in cost and "its routed training step" in cost


def test_the_csv_tells_rows_apart():
    frame = results_frame([*made.methods(1), *made.guidance(1), *made.finetune(1)])
    line = frame[frame.row == "sprint"].iloc[-1]
    assert (line.method_params, line.schedule, line.auxiliary) == (8300, "dense from 0.8", "")
    assert frame[frame.row == "tread+repa"].iloc[-1].auxiliary == "repa"
    guided = frame[frame.row == "tread-sparse-1.8"].iloc[-1]
    assert (guided.guidance, guided.guidance_scale, guided.sampling_macs) == ("sparse 0.5/0.9", 1.8, 720_000_000)
    assert guided.checkpoint == "tread" and frame[frame.row == "dense"].iloc[-1].guidance == "none"


@pytest.mark.parametrize("name", SOME_STUDIES)
def test_the_page_of_a_study_renders_with_every_picture_described(study_page, name):
    page = study_page(name).read_text(encoding="utf-8")
    assert re.findall(r'<svg[^>]* aria-labelledby="([\w-]+)-title', page) == [*drawn(name)]
    assert len(page) < 700_000


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_that_failed_altogether_still_gets_its_page(tmp_path, plan, name):
    lost = [r.model_copy(update={"status": "failed", "reason": "diverged", **NOTHING_MEASURED, "gap": None})
            for r in STUDIES[name](1)]  # fmt: skip
    render(lost, plan, tmp_path, pictures=pictures)
    assert "No cell" in (tmp_path / "index.html").read_text(encoding="utf-8") or name in (
        "location_scaling",
        "objectives",
        "guidance",
    )


def taught(records):
    """The records, of which those with REPA have their target features from a network."""
    details = {"feature_network_sha256": "a" * 64}
    return [
        r.model_copy(
            update={
                "target_features_sha256": "a" * 64 if "repa" in requested.auxiliary(r) else "",
                "evaluations": [e.model_copy(update={"protocol_details": details}) for e in r.evaluations],
            }
        )
        for r in records
    ]


def test_a_row_that_its_judge_has_taught_is_shown_but_not_ranked(tmp_path, plan):
    assert min(lasts(made.methods(), row).mean() for row in made.METHODS) == lasts(made.methods(), "repa").mean()
    rows = comparison(taught(made.methods()))
    by_name = {row.name: row for row in rows}
    assert {name for name, row in by_name.items() if row.is_evaluated_by_teacher} == {"repa", "tread+repa"}
    assert [row.name for row in rows if row.is_lowest_fid] == ["dense"]
    assert by_name["repa"].fid and not by_name["repa"].is_among_lowest_fid and by_name["repa"].fid_p_value is None
    quality, _ = verdict_of(rows)
    assert quality.startswith("Of 7 methods, ") and "repa" not in quality
    page = render(taught(made.methods(2)), plan, tmp_path)
    assert page.count("<small>evaluated with its teacher’s features, not ranked</small>") == 2
    assert "repa and tread+repa were trained towards features of the network that FID" in page


def test_targets_of_another_network_than_the_judge_leave_a_row_in_the_ranking():
    rows = comparison(
        r.model_copy(update={"target_features_sha256": "b" * 64}) if r.target_features_sha256 else r
        for r in taught(made.methods())
    )
    assert not any(row.is_evaluated_by_teacher for row in rows)
    assert [row.name for row in rows if row.is_lowest_fid] == ["repa"]


def test_where_the_judge_has_taught_every_row_none_is_called_best():
    records = [r for r in taught(made.methods()) if r.row in ("dense", "repa")]
    quality, _ = verdict_of(comparison(records))
    assert quality == "No row other than dense is ranked: the network that measures FID was their teacher."


def test_tread_is_told_beside_a_better_method(rows):
    quality, cost = verdict_of([row for row in rows["methods"] if row.name != "tread+repa"])
    assert "repa has the lowest FID" in quality
    said = cost.partition(" As for tread, ")[2]
    assert said.startswith("it is not significantly different from dense (") and "1.18 times as fast" in said
    (above,) = re.findall(r"; (.*) have a higher FID \(paired tests", said)
    assert {"mask", "layer_skip"} <= set(re.split(", | and ", above))
    assert "mae" not in said and "repa" not in said and "the rest do not differ significantly" in said


def test_the_page_says_how_cells_were_trained(tmp_path, plan):
    records = made.finetune(1)
    records[0] = made.asked(records[0], training={"iterations": 1200, "batch": 32})
    page = render(
        records, {**plan, "cells": ["one cell"], "references": {"one cell": "another"}}, tmp_path, {"one cell": ""}
    )
    assert re.search(r"<dt>batch</dt><dd>(32 or 64|64 or 32)</dd>", page)
    assert "one cell" not in page
