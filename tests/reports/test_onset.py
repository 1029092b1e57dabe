"""What the page of a pre-registered study says: from how much compute on routing pays, and what was decided before."""

from __future__ import annotations

import json

import pytest
from synthetic_budgets import budget_row, dense
from synthetic_records import asked, evaluation, record
from synthetic_runs import write_run

from tread_bench.cli.comparison import print_comparison
from tread_bench.core.config.suite import Hypothesis
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.core.stored.documents import Registered
from tread_bench.core.stored.records import Candidate, Tuning
from tread_bench.reports.figures.draw import draw
from tread_bench.reports.page import run as page_of_run
from tread_bench.reports.questions import onset
from tread_bench.reports.questions import tuning as tuning_of
from tread_bench.reports.questions.onset import answered, panels
from tread_bench.reports.study import Study
from tread_bench.reports.text.numbers import number, words
from tread_bench.services.decisions import hypothesis_of
from tread_bench.services.report import write_report

MACS = (1e10, 4e10, 16e10)
STATED = Registered.of(Hypothesis(claim="Routing pays.", test="onset", margin=1.0, stop=3))


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
        ((0.5, 1.5, 2.0), (0.5, 1.5, 2.0), "With 16 tokens, 2:8@0.5 begins to pay at 4e+10", "pays", 4e10),
        ((1.5, 1.5, 1.5), (1.5, 1.5, 1.5), "pays at every budget measured, from 1e+10", "pays", 1e10),
        ((0.5, 1.5, 2.0), (0.5, 0.5, 0.5), "not pay within what was measured, up to 1.6e+11", "does not pay", None),
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
    without = []
    for one in study():
        last = one.last.model_copy(update={"fid": {MACS[0]: None}.get(one.last.training_macs, one.last.fid)})
        without.append(one.model_copy(update={"evaluations": [last]}))
    (panel,) = panels(without, STATED)
    assert len(panel.loss) == len(panel.macs) == 3 and all(one.estimate for ratios in panel.loss for one in ratios)
    numbers = draw(onset.figure([panel])).numbers
    assert {line["at"] for line in numbers} == {"equal validation loss (decides)"} and len(numbers) == 6


def test_routes_that_differ_in_selector_or_schedule_are_panels_of_their_own():
    until = {"schedule": {"warmup": 0.0, "until": 0.8}}
    rows = arm("rows", (1.0, 1.0, 1.0), "2:8@0.5", hidden=32, selector="rows")
    ending = [asked(one, **until) for one in arm("ending", (1.0, 1.0, 1.0), "2:8@0.5", hidden=32)]
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


@pytest.mark.parametrize("another", [{"method": {"name": "sprint"}}, {"auxiliary": [{"name": "repa"}]}])
def test_routing_with_another_method_or_loss_is_no_panel(another):
    method = another.get("method", {"name": "tread"})["name"]
    arms = arm("beside", (1.0, 1.0, 1.0), "4:6@0.5", hidden=32, method=method)
    beside = [asked(one, **another) for one in arms]
    assert [panel.route for panel in panels([*study(), *beside], STATED)] == ["2:8@0.5"]


def candidates(losses, cell):
    rates = zip((1.0, 2.0, 4.0), losses, strict=True)
    return [Candidate(learning_rate=rate, cells=[cell], validation_losses=[loss]) for rate, loss in rates]


def moved(check):
    """A tuning whose best rate is the middle one, and what a check at the row's own length found."""
    chosen = candidates((3.0, 1.0, 2.0), "a")
    return Tuning(candidates=chosen, seeds=[0], share=0.5, check=candidates(check, "b"))


def test_what_unsettles_the_answer_is_said():
    assert len(said(study(tuning=moved((3.0, 1.0, 2.0))))) == 1
    answer, reason, at_edge = said(study(tuning=moved((1.0, 2.0, 3.0))))
    assert "is inconclusive" in answer
    (row, *_) = {record.row for record in study()}
    assert "at its own length, the best learning rate lies at an edge" in at_edge
    assert "the best learning rate moved with the length" in reason and f"{row} from 2 at the shortest to 1" in reason
    assert "not all cells have ended" in said(study(), is_over=False)[1]
    assert "stop after 3 seeds, and has 4" in said(study(seeds=4))[1]


def is_wide(one):
    return one.config["backbone"]["hidden"] == 64


# What is left of each study alone would begin to pay.
PARTS = {
    "a seed at both widths": lambda one: bool(one.routes) and one.seed == 2,
    "the route at one width": lambda one: bool(one.routes) and is_wide(one),
    "the control at one width": lambda one: one.row.startswith("fewer") and is_wide(one),
    "a length at one width": lambda one: one.last.training_macs == MACS[0] and is_wide(one),
    "the longest routed trainings": lambda one: bool(one.routes) and one.last.training_macs == MACS[-1],
}


@pytest.mark.parametrize("part", PARTS)
def test_no_cell_is_left_out_by_how_it_ended_and_a_study_of_uneven_arms_is_inconclusive(part):
    lost = {"status": "failed", "reason": "DivergedError: loss", "evaluations": []}
    records, which = study(), PARTS[part]
    answer, reason = said([one.model_copy(update=lost) if which(one) else one for one in records])
    assert "is inconclusive" in answer and "not all trainings ended well" in reason
    assert next(one.row for one in records if which(one)) in reason
    answer, reason = said([one for one in records if not which(one)])
    assert "is inconclusive" in answer
    assert "not every arm has the same seeds and lengths at every width" in reason


def test_the_page_the_terminal_and_json_answer_what_was_stated(tmp_path, monkeypatch, capsys):
    records = study()
    monkeypatch.setattr(page_of_run, "pictures", lambda *_: [])
    run = write_run(tmp_path / "run", records, {"registered": STATED.model_dump()})
    write_report([run], tables=tmp_path / "tables")
    assert (tmp_path / "tables" / "onset.csv").is_file()
    page = (run / "index.html").read_text()
    for text in ("Hypothesis, stated before the run", "Routing pays.", STATED.sha256[:16], "begins to pay at 4e+10"):
        assert text in page
    drawn = (run / "figures" / "onset.svg").read_text()
    assert ">1e+10<" in drawn and "mathdefault" not in drawn
    assert page.index("begins to pay at") < page.index('aria-label="Decision"')

    print_comparison(Study(records, stated=STATED), len(records))
    told = " ".join(capsys.readouterr().out.split())
    assert "Hypothesis: Routing pays." in told and "2:8@0.5 begins to pay at 4e+10 training MACs" in told

    found = hypothesis_of(Study(records, stated=STATED), len(records))
    assert (found["claim"], found["sha256"]) == ("Routing pays.", STATED.sha256)
    assert found["answers"][0]["up_to_training_macs"] == pytest.approx(MACS[-1])
    assert json.loads(json.dumps(found)) == found


def test_a_study_that_is_not_over_is_open_and_one_in_which_nothing_was_stated_has_no_answer(capsys):
    records = study()
    (still_open,) = hypothesis_of(Study(records, stated=STATED), len(records) + 1)["answers"]
    assert (still_open["answer"], still_open["from_training_macs"]) == ("inconclusive", None)
    assert hypothesis_of(Study(records, is_smoke=True, stated=STATED), len(records)) is None
    assert hypothesis_of(Study(records), len(records)) is None and Study(records).onsets == []
    print_comparison(Study(records), len(records))
    assert "Hypothesis" not in capsys.readouterr().out


def test_a_control_that_no_rate_could_train_is_missed(page_of):
    records = [one for one in study(fewer=(1.0, 1.0, 1.0)) if not one.row.startswith("fewer")]
    page = page_of(records, registered=STATED.model_dump(), pending=18)
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
    again = [asked(one, evaluate={"row": one.row}) for one in study() if not one.routes]
    again = [one.model_copy(update={"row": "again"}) for one in again]
    assert said([*study(), *again]) == said(study())


def test_a_study_that_stops_is_not_advised_to_go_on(page_of, capsys):
    records = [asked(one, backbone={"depth": 12}) for one in [*dense(), *budget_row(at_end=19.9)]]
    for stated in (None, STATED):
        print_comparison(Study(records, stated=stated), len(records))
        page = page_of(records, registered=stated and stated.model_dump())
        for told in (capsys.readouterr().out, page):
            assert ("Add seeds to this run" in told) is (stated is None)


def test_rates_that_a_shorter_training_chose_are_cautioned_about():
    """As many tuning seeds as the study has, at whole trainings: of a row itself there is nothing to say."""
    tuning = moved((3.0, 1.0, 2.0)).model_copy(update={"seeds": [0, 1, 2], "share": 1.0})
    assert [*tuning_of.cautions(Study(study(tuning=tuning)).rows)] == []
    (said,) = tuning_of.cautions(Study(study(tuning=tuning.model_copy(update={"shortest": "dense"}))).rows)
    assert "at 100 % of the shortest row’s training chose it" in said
    assert "choose with --set tune.shortest=false and with as many tuning seeds" in said and "tune.share" not in said


@pytest.mark.parametrize(("decay", "how"), [(None, "Constant"), ({"name": "linear"}, "Decayed")])
def test_a_rate_that_no_tuning_chose_is_called_untuned(decay, how):
    one = asked(record("dense", "", 0, 20.0), training={"iterations": 9, "learning_rate": 3e-4, "decay": decay})
    assert tuning_of.summary(Study([one]).rows).startswith(f"{how} rate, untuned: 0.0003.")


def test_a_bound_below_0_keeps_its_sign():
    minus = "\N{MINUS SIGN}"
    assert words(MeanInterval(-0.73, -0.95, -0.0033, 2)) == f"{minus}0.73 [{minus}0.95, {minus}0.00]"
    assert number(-0.0033) == "0.00" and number(0.0, signed=True) == "+0.00"
