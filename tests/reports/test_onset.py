"""What the page of a pre-registered study says: from how much compute on routing pays, and what was decided before."""

from __future__ import annotations

import json

import pytest
from synthetic_records import evaluation, record, render
from test_differences import budget_row, dense

from tread_bench.cli.comparison import print_comparison
from tread_bench.core.config.suite import Hypothesis
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.core.stored.documents import Registered, RunPlan
from tread_bench.core.stored.records import Candidate, Tuning
from tread_bench.reports.figures.draw import draw
from tread_bench.reports.page import run as page_of_run
from tread_bench.reports.questions import onset
from tread_bench.reports.questions import tuning as tuning_of
from tread_bench.reports.questions.onset import answered, panels
from tread_bench.reports.study import Study
from tread_bench.reports.text.numbers import number, words
from tread_bench.services.decisions import hypothesis_of

MACS = (1e10, 4e10, 16e10)
STATED = Registered.of(Hypothesis(claim="Routing pays.", test="onset", margin=1.0, stop=3))
PLAN = RunPlan.model_validate(
    {
        "suite": {"name": "onset"}, "timing": {}, "cells": [], "references": {}, "rows": {},
        "started": "2026-01-15T12:00:00+00:00", "numerics": {"device": "cpu", "threads": 1}, "versions": {},
        "registered": STATED.model_dump(),
    }
)  # fmt: skip


def arm(name, ratios, routes="", depth=12, hidden=64, seeds=3, **changes):
    """Its cells, where it needs `ratios` times the compute of a power law for the same loss."""
    found = []
    for length, (macs, factor) in enumerate(zip(MACS, ratios, strict=True)):
        for seed in range(seeds):
            made = record(f"{name} {length} {hidden}", routes, seed, 20.0)
            loss = (macs / factor) ** -0.2 * (1 + 0.001 * (seed + len(name) % 3 * (-1) ** seed))
            last = evaluation(100, 1000 * loss).model_copy(update={"validation_loss": loss, "training_macs": macs})
            config = {**made.config, "backbone": {**made.config["backbone"], "depth": depth, "hidden": hidden}}
            found.append(made.model_copy(update={"evaluations": [last], "config": config, **changes}))
    return found


def study(dense=(0.5, 1.5, 2.0), fewer=(0.5, 1.5, 2.0), **changes):
    records = []
    for hidden in (32, 64):
        records += arm("dense", dense, hidden=hidden, **changes)
        records += arm("fewer", fewer, depth=8, hidden=hidden, **changes)
        records += arm("routed", (1.0, 1.0, 1.0), "2:8@0.5", hidden=hidden, **changes)
    return records


def said(records, is_over=True):
    return sentences(records, STATED, is_over)


def sentences(records, stated, is_over):
    return answered([*panels(records, stated)], records, stated, is_over)[0]


@pytest.mark.parametrize(
    ("dense", "fewer", "sentence", "answer", "begins"),
    [
        (
            (0.5, 1.5, 2.0),
            (0.5, 1.5, 2.0),
            "With 16 tokens, 2:8@0.5 begins to pay at 4e+10 training MACs",
            "pays",
            4e10,
        ),
        ((1.5, 1.5, 1.5), (1.5, 1.5, 1.5), "pays at every budget measured, from 1e+10 training MACs on", "pays", 1e10),
        (
            (0.5, 1.5, 2.0),
            (0.5, 0.5, 0.5),
            "does not pay within what was measured, up to 1.6e+11 training MACs",
            "does not pay",
            None,
        ),
        ((0.5, 1.5, 2.0), (1.0, 1.0, 1.0), "is inconclusive", "inconclusive", None),
    ],
)
def test_it_says_from_where_on_routing_pays(dense, fewer, sentence, answer, begins):
    records = study(dense, fewer)
    (found,) = said(records)
    assert sentence in found, found
    (same,) = hypothesis_of(Study(records, stated=STATED), len(records))["answers"]
    assert (same["answer"], same["from_training_macs"]) == (answer, begins and pytest.approx(begins))


def test_ratios_are_those_of_the_curves_by_reference_and_figure():
    (panel,) = panels(study(dense=(1.5, 1.5, 1.5), fewer=(0.8, 0.8, 0.8)), STATED)
    assert panel.references == ["dense", "8 blocks"]
    assert panel.macs == pytest.approx(MACS)
    for ratios in (panel.loss, panel.fid):
        means = [[ratio.estimate.mean for ratio in at_length] for at_length in ratios]
        assert means == [pytest.approx([1.5, 0.8], rel=0.02)] * 3
    numbers = draw(onset.figure([panel])).numbers
    assert len(numbers) == 2 * 6 and all(" to " in line["95 % interval"] for line in numbers)
    p_values = {line["p that the route is no cheaper"] for line in numbers if line["at"] == "equal FID"}
    assert p_values == {"–"}


def test_fid_stands_beside_where_every_length_has_it():
    records = study()
    smallest = [one.last.model_copy(update={"fid": None}) for one in records]
    without = [
        one.model_copy(update={"evaluations": [last]}) if last.training_macs == MACS[0] else one
        for one, last in zip(records, smallest, strict=True)
    ]
    (panel,) = panels(without, STATED)
    assert len(panel.loss) == len(panel.macs) == 3 and all(one.estimate for ratios in panel.loss for one in ratios)
    numbers = draw(onset.figure([panel])).numbers
    assert {line["at"] for line in numbers} == {"equal validation loss (decides)"} and len(numbers) == 6


def test_routes_that_differ_in_selector_or_schedule_are_panels_of_their_own():
    until = {"schedule": {"warmup": 0.0, "until": 0.8}}
    rows = arm("rows", (1.0, 1.0, 1.0), "2:8@0.5", hidden=32, selector="rows")
    ending = [
        one.model_copy(update={"config": one.config | until})
        for one in arm("ending", (1.0, 1.0, 1.0), "2:8@0.5", hidden=32)
    ]
    found = [*panels([*study(), *rows, *ending], STATED)]
    names = ["2:8@0.5", "2:8@0.5 rows", "2:8@0.5, dense from 0.8"]
    assert [panel.route for panel in found] == names
    assert all(ratio.estimate for panel in found for ratios in panel.loss for ratio in ratios)
    picture = draw(onset.figure(found))
    assert all(name in picture.description for name in names)


def test_a_route_that_cannot_be_compared_leaves_every_answer_open():
    """Of one length only, so that it has no panel."""
    beside = [one for one in arm("beside", (1.0, 1.0, 1.0), "4:6@0.5") if one.last.training_macs == MACS[0]]
    answer, reason = said([*study(), *beside])
    assert "2:8@0.5 is inconclusive" in answer and "same seeds and lengths" in reason


@pytest.mark.parametrize(
    "another", [{"method": {"name": "sprint"}}, {"auxiliary": [{"name": "repa"}]}], ids=["method", "loss"]
)
def test_routing_with_another_method_or_loss_is_no_panel(another):
    method = another["method"]["name"] if "method" in another else "tread"
    beside = [
        one.model_copy(update={"config": one.config | another, "method": method})
        for one in arm("beside", (1.0, 1.0, 1.0), "4:6@0.5", hidden=32)
    ]
    assert [panel.route for panel in panels([*study(), *beside], STATED)] == ["2:8@0.5"]


def test_without_a_hypothesis_there_is_no_claim():
    assert Study(study()).onsets == []


def moved(check):
    cells = [
        Candidate(learning_rate=r, cells=["a"], validation_losses=[v]) for r, v in ((1.0, 3.0), (2.0, 1.0), (4.0, 2.0))
    ]
    other = [
        Candidate(learning_rate=r, cells=["b"], validation_losses=[v])
        for r, v in zip((1.0, 2.0, 4.0), check, strict=True)
    ]
    return Tuning(candidates=cells, seeds=[0], share=0.5, check=other)


def test_what_unsettles_the_answer_is_said():
    assert len(said(study(tuning=moved((3.0, 1.0, 2.0))))) == 1
    answer, reason, at_edge = said(study(tuning=moved((1.0, 2.0, 3.0))))
    assert "is inconclusive" in answer
    (row, *_) = {record.row for record in study()}
    assert "at its own length, the best learning rate lies at an edge" in at_edge
    assert "the best learning rate moved with the length" in reason and f"{row} from 2 at the shortest to 1" in reason
    assert "not all cells have ended" in said(study(), is_over=False)[1]
    assert "stop after 3 seeds, and has 4" in said(study(seeds=4))[1]


def failing(records, which):
    """The records, of which those have failed."""
    lost = {"status": "failed", "reason": "DivergedError: loss", "evaluations": []}
    return [one.model_copy(update=lost) if which(one) else one for one in records]


def is_routed_at_width_64(one):
    return bool(one.routes) and one.config["backbone"]["hidden"] == 64


# What is left of each study alone would begin to pay.
PARTS = {
    "a seed at both widths": (study(), lambda one: bool(one.routes) and one.seed == 2),
    "the route at one width": (study(), is_routed_at_width_64),
    "the control, which is as good as the route": (
        study(fewer=(1.0, 1.0, 1.0)),
        lambda one: one.row.startswith("fewer"),
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_no_cell_is_left_out_by_how_it_ended(part):
    records, which = PARTS[part]
    answer, reason = said(failing(records, which))
    assert "is inconclusive" in answer
    assert "not all trainings ended well" in reason
    assert next(one.row for one in records if which(one)) in reason


@pytest.mark.parametrize(
    "which",
    [
        lambda one: bool(one.routes) and one.seed == 2,
        is_routed_at_width_64,
        lambda one: one.row.startswith("fewer") and one.config["backbone"]["hidden"] == 64,
        lambda one: one.last.training_macs == MACS[0] and one.config["backbone"]["hidden"] == 64,
        lambda one: one.last.training_macs == MACS[-1] and one.config["backbone"]["hidden"] == 32,
        lambda one: bool(one.routes) and one.last.training_macs == MACS[-1],
    ],
)
def test_a_study_of_uneven_arms_is_inconclusive(which):
    answer, reason = said([one for one in study() if not which(one)])
    assert "is inconclusive" in answer
    assert "not every arm has the same seeds and lengths at every width" in reason


def test_the_page_says_what_was_decided_before(tmp_path):
    records = study()
    page = render(records, {"registered": STATED.model_dump(), "cells": [r.cell for r in records]}, tmp_path)
    for text in ("Hypothesis, stated before the run", "Routing pays.", STATED.sha256[:16], "begins to pay at 4e+10"):
        assert text in page
    assert "Looked at after" in page
    assert "Compute of a reference over a route’s" in page
    drawn = (tmp_path / "figures" / "onset.svg").read_text()
    assert ">1e+10<" in drawn and "mathdefault" not in drawn
    assert page.index("begins to pay at") < page.index('aria-label="Decision"')


def test_the_terminal_answers_what_was_stated(capsys):
    records = study()
    print_comparison(Study(records, stated=STATED), len(records))
    told = " ".join(capsys.readouterr().out.split())
    assert "Hypothesis: Routing pays." in told and "2:8@0.5 begins to pay at 4e+10 training MACs" in told
    print_comparison(Study(records), len(records))
    assert "Hypothesis" not in capsys.readouterr().out


def test_json_answers_what_was_stated():
    records = study()
    found = hypothesis_of(Study(records, stated=STATED), len(records))
    assert (found["claim"], found["sha256"]) == ("Routing pays.", STATED.sha256)
    assert "begins to pay at 4e+10" in found["sentences"][0]
    (answer,) = found["answers"]
    assert (answer["route"], answer["answer"]) == ("2:8@0.5", "pays")
    assert answer["from_training_macs"] == pytest.approx(4e10)
    assert answer["up_to_training_macs"] == pytest.approx(MACS[-1])
    assert json.loads(json.dumps(found)) == found

    (still_open,) = hypothesis_of(Study(records, stated=STATED), len(records) + 1)["answers"]
    assert (still_open["answer"], still_open["from_training_macs"]) == ("inconclusive", None)
    assert hypothesis_of(Study(records, is_smoke=True, stated=STATED), len(records)) is None
    assert hypothesis_of(Study(records), len(records)) is None


def test_a_control_that_no_rate_could_train_is_missed(tmp_path):
    records = [one for one in study(fewer=(1.0, 1.0, 1.0)) if not one.row.startswith("fewer")]
    plan = {"registered": STATED.model_dump(), "cells": [r.cell for r in records], "pending": 18}
    page = render(records, plan, tmp_path)
    assert "begins to pay" not in page and "not all cells have ended" in page


def test_a_check_that_chose_nothing_leaves_the_answer_open():
    cells = moved((3.0, 1.0, 2.0))
    lost = [one.model_copy(update={"validation_losses": [], "failed": 1}) for one in cells.check]
    answer, reason = said(study(tuning=cells.model_copy(update={"check": lost})))
    assert "is inconclusive" in answer and "no candidate could be trained on every seed" in reason
    at_edge = cells.model_copy(update={"check": [lost[0], *cells.check[1:]]})
    answer, reason = said(study(tuning=at_edge))
    assert "is inconclusive" in answer and "at its own length, the best learning rate lies at an edge" in reason


def test_a_loss_that_rises_is_said():
    records = study()
    rising = next(one for one in records if one.routes and one.last.training_macs == MACS[1])
    last = rising.last.model_copy(update={"validation_loss": 10.0})
    records[records.index(rising)] = rising.model_copy(update={"evaluations": [last]})
    (answer,) = said(records)
    assert "is inconclusive, since a loss does not fall with every length" in answer
    assert "dense not known" in answer


def test_a_margin_is_part_of_the_answer():
    stated = Registered.of(Hypothesis(claim="Routing pays.", test="onset", margin=1.4, stop=3))
    records = study((1.3, 1.3, 1.3), (1.3, 1.3, 1.3))
    (answer,) = sentences(records, stated, True)
    assert "does not pay within what was measured, up to 1.6e+11 training MACs by more than 1.4 times" in answer
    answer, *_ = sentences(records, stated, False)
    assert "is inconclusive (compute of" in answer


def test_bounds_say_in_which_direction():
    records = study((50.0, 50.0, 50.0), (0.01, 0.01, 0.01))
    (answer,) = said(records)
    assert "dense at least 16; 8 blocks at most 0.0625" in answer, answer


def test_weights_that_are_evaluated_again_are_no_length_of_their_own():
    records = study()
    again = [
        one.model_copy(update={"row": "again", "config": one.config | {"evaluate": {"row": one.row}}})
        for one in records
        if not one.routes
    ]
    assert said([*records, *again]) == said(records)


def test_a_study_that_stops_is_not_advised_to_go_on(tmp_path, capsys):
    records = [
        one.model_copy(update={"config": one.config | {"backbone": {"depth": 12}}})
        for one in [*dense(), *budget_row(at_end=19.9)]
    ]
    plan = {"cells": [one.cell for one in records]}
    print_comparison(Study(records), len(records))
    assert "Add seeds to this run: --set seeds=" in capsys.readouterr().out
    assert "Add seeds to this run" in render(records, plan, tmp_path)

    print_comparison(Study(records, stated=STATED), len(records))
    assert "--set seeds" not in capsys.readouterr().out
    stated = render(records, plan | {"registered": STATED.model_dump()}, tmp_path)
    assert "Add seeds to this run" not in stated


def test_the_ratios_and_their_map_are_tables_of_their_own(tmp_path, monkeypatch):
    records = study()
    cells = [one.cell for one in records]
    named = {"cells": cells, "references": dict.fromkeys(cells, ""), "rows": dict.fromkeys(cells, ("dense", 0))}
    (tmp_path / "tables").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(page_of_run, "pictures", lambda *_: [])
        page_of_run.render(records, PLAN.model_copy(update=named), tmp_path, export=tmp_path / "tables")
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert "onset.csv" in names, names


def test_rates_that_a_shorter_training_chose_are_cautioned_about():
    """As many tuning seeds as the study has, at whole trainings: of a row itself there is nothing to say."""
    tuning = moved((3.0, 1.0, 2.0)).model_copy(update={"seeds": [0, 1, 2], "share": 1.0})
    assert [*tuning_of.cautions(Study(study(tuning=tuning)).rows)] == []
    (said,) = tuning_of.cautions(Study(study(tuning=tuning.model_copy(update={"shortest": "dense"}))).rows)
    assert "at 100 % of the shortest row’s training chose it" in said
    assert "choose with --set tune.shortest=false and with as many tuning seeds" in said and "tune.share" not in said


def test_a_bound_below_0_keeps_its_sign():
    minus = "\N{MINUS SIGN}"
    assert words(MeanInterval(-0.73, -0.95, -0.0033, 2)) == f"{minus}0.73 [{minus}0.95, {minus}0.00]"
    assert number(-0.0033) == "0.00" and number(0.0, signed=True) == "+0.00"
