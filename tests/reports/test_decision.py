"""Whether to route: the rule on figures worked out by hand, its error rates and power, and what people read of it."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace

import pytest
from scipy import stats
from simulated_runs import FOUND, NULLS, shares, untrained
from synthetic_budgets import (
    DENSE_END,
    EIGHT,
    ROUTE,
    ROUTED_END,
    SIX_BLOCKS,
    budget_row,
    dense,
    dense_curve,
    law,
    of_seeds,
    routed,
    smaller,
)
from synthetic_records import architectures, asked, cost, decided, record, timing, view_of
from synthetic_studies import guidance

from tread_bench.cli.comparison import print_comparison
from tread_bench.core.describe.dialects import DIALECTS
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.decision import Candidate, Choice, Claim, Decision, Learning, Outcome, choice_of, decide
from tread_bench.reports.study import Study
from tread_bench.reports.text.decision import documents, next_step, overview, scope, sentence, strip

HEADLINE = re.compile('<p class="quality">(.*?)</p>')
DOCUMENT = Path(__file__).parents[2] / "docs" / "methods" / "decision.md"
NOISE = (0.3, -0.5, 0.1, 0.2, -0.1)
ZEROS = dict.fromkeys(range(5), 0.0)


def beside(mean, noise=NOISE):
    """Differences to 0 with that mean, by seed."""
    return {seed: mean + one for seed, one in enumerate(noise)}


def candidate(name="2:8", mean=-3.0, time=None, **controls):
    at_times = [(beside(one), ZEROS) for one in time or ()]
    sides = {other: (beside(mean), dict.fromkeys(range(5), fid)) for other, fid in controls.items()}
    return Candidate(name=name, at_macs=(beside(mean), ZEROS), at_times=at_times, controls=sides)


def outcomes(*candidates):
    return [str(test.outcome) for test in decide(candidates).tests]


def test_every_combination_of_outcomes_has_one_decision_and_the_page_of_the_docs_has_them_all():
    said = {}
    for line in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| `([^|`]+)` \|", DOCUMENT.read_text("utf-8"), re.M):
        *claims, choice = line
        allowed = [Outcome if claim == "any" else [Outcome(one) for one in claim.split(" or ")] for claim in claims]
        for combination in product(*allowed):
            assert combination not in said
            said[combination] = Choice(choice)
    assert said == {combination: choice_of(*combination) for combination in product(Outcome, repeat=3)}
    assert {*said.values(), Choice.NOT_TRAINED} == set(Choice)


def half(level):
    """Of the interval of a difference with `NOISE`."""
    return stats.t.isf(level / 2, 4) * stats.tstd(NOISE) / 5**0.5


def test_the_best_of_several_routes_is_tested_at_its_share_of_the_level_and_shown_with_its_95_percent_interval():
    mean = -(half(0.05) + half(0.05 / 3)) / 2
    routes = [candidate("2:8", mean), candidate("0:8", mean / 2), candidate("4:8", mean / 3)]
    alone, among = (decide(some).tests[0] for some in (routes[:1], routes))
    assert (alone.outcome, among.outcome) == (Outcome.HOLDS, Outcome.INCONCLUSIVE) and decide(routes).route == "2:8"
    assert alone.difference == among.difference
    assert among.difference.bounds == pytest.approx((mean - half(0.05), mean + half(0.05)))
    said = [mark.evidence for mark in (strip(decide(routes[:1]), 2)[0], strip(decide(routes), 2)[0])]
    assert said[1] == f"{said[0]}, not beyond chance among so many comparisons"


def test_a_route_must_beat_every_control_and_a_control_must_beat_every_route():
    assert outcomes(candidate(mean=-3, small=0.0, large=-1.0)) == ["holds", "untested", "holds"]
    assert outcomes(candidate(mean=-3, small=0.0, large=-2.9)) == ["holds", "untested", "inconclusive"]
    assert outcomes(candidate(mean=-3, small=0.0, large=-6.0)) == ["holds", "untested", "fails"]
    two = [candidate("2:8", -3.0, small=-3.1), candidate("0:8", -2.0, small=-3.1)]
    assert outcomes(*two) == ["holds", "untested", "inconclusive"]  # it beats one of the routes, not the other
    two = [candidate("2:8", -3.0, skipped=-6.0), candidate("0:8", -2.0)]
    assert outcomes(*two) == ["holds", "untested", "inconclusive"]  # it was not beside the other


def test_the_interval_at_equal_time_holds_those_at_both_ends_of_the_speed_up():
    (_, at_time, _) = decide([candidate(time=(-2.0, -1.0, -3.0))]).tests
    alone = [decide([candidate(time=(one,))]).tests[1].difference for one in (-2.0, -1.0, -3.0)]
    assert at_time.difference.mean == pytest.approx(-2.0)
    assert at_time.difference.bounds == (alone[2].low, alone[1].high)
    assert outcomes(candidate(time=(-2.0, 0.0, -3.0)))[1] == "inconclusive"
    assert outcomes(candidate(time=(2.0, 1.0, 3.0)))[1] == "fails"


def test_dense_is_better_only_where_it_beats_every_route():
    assert decide([candidate("a", 3.0), candidate("b", 4.0)]).choice is Choice.WORSE
    wide = Candidate(name="b", at_macs=(beside(4.0, (9, -9, 8, -8, 0)), ZEROS))
    assert decide([candidate("a", 3.0), wide]).choice is Choice.UNDECIDED


def test_one_seed_decides_nothing_and_ties_are_no_evidence():
    one = Candidate(name="a", at_macs=({0: 1.0}, {0: 3.0}))
    assert decide([one]).choice is Choice.UNDECIDED and decide([one]).finds is None
    tied = Candidate(name="a", at_macs=(ZEROS, ZEROS))
    assert decide([tied]).choice is Choice.UNDECIDED
    assert decide([]).choice is Choice.UNTESTED and decide([]).route == ""


def test_an_open_decision_says_how_many_seeds_find_the_measured_difference():
    found = decide([Candidate(name="a", at_macs=(beside(-1.0, (2.0, -2.0, 1.0, -1.0, 0.0)), ZEROS))])
    assert (found.choice, found.finds) == (Choice.UNDECIDED, pytest.approx(1.0)) and 15 < found.seeds < 30
    far = decide([Candidate(name="a", at_macs=(beside(-0.01, (2.0, -2.0, 1.0, -1.0, 0.0)), ZEROS))])
    assert far.seeds is None and far.finds == pytest.approx(0.01)


# Error rates and power.


@pytest.mark.parametrize(("choice", "truth"), NULLS)
def test_a_definite_decision_is_wrong_in_at_most_five_of_a_hundred_runs(choice, truth):
    assert shares(truth, 200)[choice] <= stats.binom.ppf(0.999, 200, 0.05) / 200


@pytest.mark.parametrize(("choice", "truth", "least"), FOUND)
def test_a_difference_of_three_standard_deviations_is_found_as_often_as_was_fixed(choice, truth, least):
    assert shares(truth, 200)[choice] >= stats.binom.ppf(0.001, 200, least) / 200


def test_networks_that_learn_are_hardly_ever_called_untrained_and_those_that_do_not_almost_always():
    assert max(untrained(3.0, 2), untrained(2.0, 3), untrained(1.5, 5)) < 0.1
    assert min(untrained(1.0, seeds) for seeds in (2, 3, 5)) > 0.95


# What the rows of a run give it.


def flat(first=394.0, last=405.0):
    """Dense networks that have not learnt, and a route beside them."""
    return [*dense({DENSE_END // 2: first, DENSE_END: last}), *budget_row(at_end=last - 3)]


def test_networks_that_have_not_learnt_are_to_train_longer_and_no_seeds_are_advised(page_of, capsys):
    records = flat()
    fell = "dense has FID 394 at iteration 600 and 405 at 1,200, no fall beyond chance"
    said = f"Not trained yet: with 16 tokens and 1,200 iterations, {fell}. Train longer."
    (document,) = documents(decided(records))
    assert (document["sentence"], document["choice"], document["seeds_to_decide"]) == (said, "not trained yet", None)
    page = html.unescape(page_of(records))
    assert HEADLINE.findall(page) == [said]
    assert "--set seeds" not in page and "--set training.iterations=4800" in page
    print_comparison(Study(records), len(records))
    told = capsys.readouterr().out
    assert said in " ".join(told.split()) and "Add seeds" not in told


def begun(records):
    """The same, whose trainings start from other weights."""
    start = {"start": {"row": "base", "iteration": 9, "run": None}}
    return [asked(one, training=one.config["training"] | start) for one in records]


@pytest.mark.parametrize(
    ("records", "choice"),
    [
        (flat(394.0, 20.0), Choice.CONTROLS_MISSING),
        ([*dense({DENSE_END: 405.0}), *budget_row(402.0)], Choice.CONTROLS_MISSING),
        ([one for one in flat() if one.seed == 0], Choice.NOT_TRAINED),
        ([one for one in flat(394.0, 393.0) if one.seed == 0], Choice.UNDECIDED),
        (flat(0.0, 20.0), Choice.CONTROLS_MISSING),
        (begun(flat()), Choice.CONTROLS_MISSING),
    ],
    ids=["learnt", "one evaluation", "one seed", "one seed falls", "0", "from trained weights"],
)
def test_whether_networks_have_learnt_is_said_where_two_evaluations_tell(records, choice):
    ((_, found),) = decided(records)
    assert found.choice is choice


@pytest.mark.parametrize(
    ("control", "choice"),
    [
        ([], Choice.CONTROLS_MISSING),
        (smaller(19.9), Choice.TIME_OPEN),
        (smaller(18.05), Choice.CONTROL_OPEN),
        (smaller(15.0), Choice.CONTROL_BETTER),
    ],
    ids=["none", "worse", "alike", "better"],
)
def test_a_smaller_network_at_the_same_macs_is_a_control(control, choice):
    records = [*dense(), *budget_row(), *control]
    ((_, found),), (document,) = decided(records), documents(decided(records))
    assert found.choice is choice and found.route == "route"
    assert found.tests[0].difference.mean == pytest.approx(-2.0)
    assert found.tests[2].other == ("smaller" if control else "")
    assert document["choice"] == choice and document["tests"][0]["low_fid"] == found.tests[0].difference.low


def beside_its_own(kind, dense_fid, at_end):
    """A dense row and a route to its MACs, of one kind of training among others."""
    own = of_seeds(f"{kind}-dense", {DENSE_END: dense_fid})
    own = [one.model_copy(update={"reference": one.cell}) for one in own]
    fids = {DENSE_END: dense_fid + 1, ROUTED_END: at_end}
    return [*own, *of_seeds(kind, fids, routes=ROUTE, macs_of=f"{kind}-dense", noise=NOISE)]


def test_a_route_is_compared_with_its_own_reference_and_no_other(page_of):
    records = [*beside_its_own("full", 20.0, 18.0), *beside_its_own("lora", 30.0, 27.0)]
    (document,) = documents(decided(records))
    at_macs = document["tests"][0]
    assert (document["route"], at_macs["against"]) == ("lora", "lora-dense")
    assert at_macs["difference_fid"] == pytest.approx(-3.0)
    assert "lora is better than lora-dense at equal MACs; " in document["sentence"]
    assert "It is compared with lora-dense, the training without this route." in page_of(records)

    # Every route worse than its own: no one reference is named.
    routes = [
        replace(candidate("full", 4.0), reference="full-dense"),
        replace(candidate("lora", 3.0, time=(-3.0, -3.0, -3.0)), reference="lora-dense"),
    ]
    found = decide(routes)
    assert sentence(found) == "Do not route: every route is worse than its reference at equal training MACs."
    assert [test.other for test in found.tests] == ["lora-dense", "lora-dense", ""]
    assert "worse than lora-dense at" in sentence(decide(routes[1:]))


def test_records_of_tuning_cells_do_not_reach_a_decision():
    study = [*dense(), *budget_row()]
    tuning = [one.model_copy(update={"role": "tuning"}) for one in budget_row(at_end=12.0)]
    assert decided([*study, *tuning])[0][1] == decided(study)[0][1]


def test_without_routes_or_a_study_there_is_no_decision_and_at_equal_iterations_alone_it_is_untested():
    assert decided(dense()) == [] == decided([*dense(), *budget_row()], is_smoke=True)
    assert decided([*guidance(), *budget_row()]) == [] and decided([*dense(), *budget_row()])
    ((_, found),) = decided([*dense(), *of_seeds("route", {1200: 18.0}, routes="2:8@0.5")])
    assert found.choice is Choice.UNTESTED


def test_the_page_begins_with_the_decision_and_keeps_what_it_rests_on(page_of):
    records = [*dense(), *budget_row(), *smaller(15.0)]
    page = page_of(records)
    (said,) = HEADLINE.findall(page)
    assert said.startswith("Do not route: with 16 tokens and 1,200 iterations, at the same MACs the control smaller")
    assert re.findall(r'<li class="(\w+)">', page) == ["holds", "untested", "fails"]
    assert "Take this route with you" not in page
    detectable = decided(records)[0][1].detectable
    assert f"A true difference from dense of {detectable:.2f} FID at equal MACs is found in 80 %" in page


def test_a_number_has_one_interval_in_the_strip_the_table_and_json():
    records = [*dense(), *budget_row(), *smaller(19.9)]
    ((_, found),), (document,) = decided(records), documents(decided(records))
    view = view_of(records)
    column = view.columns["Δ FID, equal MACs"]
    shown = column.entries[[row.short_label for row in view.members].index(found.route)]
    assert strip(found, 2)[0].evidence == f"{shown.text} FID ({shown.below}), 5 seeds"
    in_json = document["tests"][0]
    assert f"{in_json['low_fid']:+.2f} to {in_json['high_fid']:+.2f}".replace("-", "−") == shown.below


def test_the_terminal_has_every_column_in_100_and_ends_with_the_decision(capsys):
    curve, other = {i: law(i) for i in EIGHT}, SIX_BLOCKS | {"timing": timing(1.1, 7)}
    records = [*dense_curve(), *routed(0.8), *of_seeds("smaller", curve, macs_of="dense", **other)]
    print_comparison(Study(records), len(records))
    *table, decision = capsys.readouterr().out.splitlines()
    assert 80 < max(map(len, table)) <= 100 and "not in pairs" in "".join(table)
    better = "route is better than dense at equal MACs; no control of the same cost was tested."
    assert decision == f"Here, with 16 tokens and 1,200 iterations, {better}"


@pytest.mark.parametrize(("route", "refusing"), [(ROUTE, 0), ("3:3@0.5", 1)])
def test_a_decision_for_a_route_is_written_as_trainers_that_take_it_write_it(page_of, route, refusing):
    fids = {DENSE_END: 23.0, ROUTED_END: 18.0}
    cells = of_seeds("route", fids, routes=route, macs_of="dense", noise=NOISE, cost=cost(ROUTE))
    written = re.findall(r"<dd><code>(.*?)</code></dd>", html.unescape(page_of([*dense(), *cells])))
    end = route.partition("@")[0].partition(":")[2]
    assert len(written) == len(DIALECTS) - refusing and any(f'"tread_end_layer": {end}}}' in one for one in written)


def test_decisions_side_by_side_share_the_level():
    assert half(0.05) < 0.6 < half(0.05 / 8)
    alone, among = (decide([candidate(mean=-0.6)], side_by_side=count) for count in (1, 8))
    assert (alone.choice, among.choice) == (Choice.CONTROLS_MISSING, Choice.UNDECIDED)
    assert among.detectable > alone.detectable and among.seeds > 5


def of_arm(depth=12, side=8, start=None):
    """A study of one route as an arm of a larger one, with another architecture, other data or others' weights."""
    arm = f"{depth} {side} {start or ''}".strip()
    made = []
    for one in [*dense(), *budget_row()]:
        training = dict(one.config["training"])
        if "budget" in training:
            training["budget"] = {"macs_of": f"dense {arm}"}
        if start:
            training["start"] = {"row": start, "iteration": 1200, "run": None}
        changes = {
            "backbone": f"DiT (depth {depth}, hidden 64)",
            "row": f"{one.row} {arm}",
            "cell": f"{one.cell} {arm}",
            "reference": f"{one.reference} {arm}" if one.reference else "",
        }
        data = {"name": "glyphs", "image_size": side}
        made.append(asked(one, data=data, training=training).model_copy(update=changes))
    return made


@pytest.mark.parametrize(
    ("choices", "is_over", "said"),
    [
        (3 * [Choice.UNDECIDED], True, "Undecided in all 3 comparisons."),
        (2 * [Choice.NOT_TRAINED], True, "Not trained yet in all 2 comparisons: train longer."),
        (
            [Choice.TIME_OPEN, Choice.WORSE, Choice.UNDECIDED, Choice.CONTROL_BETTER],
            False,
            "in 1 of 4 comparisons: net 0. Do not route in 2 of 4 comparisons: net 1 and net 3. Undecided in 1 of 4",
        ),
    ],
)
def test_several_decisions_begin_with_how_often_each_answer_was_given(choices, is_over, said):
    told = overview({f"net {k}": SimpleNamespace(choice=one) for k, one in enumerate(choices)}, is_over)
    assert said in told and told.startswith("So far: A route is better") is not is_over


@pytest.mark.parametrize(
    ("others", "names", "tables"),
    [
        ({"depth": 6}, {"DiT (depth 12)", "DiT (depth 6)"}, 1),
        ({"side": 16}, {"glyphs (image_size 8)", "glyphs (image_size 16)"}, 2),
        ({"start": "dense 12 8"}, {"from drawn weights", "from dense 12 8 at 1200"}, 2),
    ],
    ids=["architectures", "data", "weights"],
)
def test_decisions_of_a_run_share_the_level_on_the_page_and_in_json(page_of, others, names, tables, capsys):
    """Whether their rows stand in one table or in several."""
    records = [*of_arm(), *of_arm(**others)]
    (alone,) = documents(decided(of_arm()))
    together = documents(decided(records))
    detectable = [one["detectable_fid"] for one in (alone, *together)]
    assert len(together) == 2 and detectable[1] == pytest.approx(detectable[2]) and detectable[1] > 1.1 * detectable[0]
    page = html.unescape(page_of(records))
    assert page.count("for the choice of the best row and for the 2 decisions of this run.") == 1
    assert ("2 comparisons" in HEADLINE.findall(page)[0]) is (tables == 1)
    assert page.count("What the decision rests on") == 2
    levels = [int(level) for level in re.findall("<h([1-6])", page)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))
    titles = re.findall(r"(DiT \(depth \d+, hidden 64\)[^<]*), protocol", page)
    assert all(", data glyphs, " in title for title in titles) and bool(titles) == (tables == 2)

    # What each is called.
    assert alone["name"] == "" and {one["name"] for one in together} == names
    print_comparison(Study(records), len(records))
    told = capsys.readouterr().out
    assert all(f"{name}: " in told for name in names)


# What people read.


def made_of(choice, **changes):
    claims = (
        ("equal training MACs", Outcome.HOLDS, "dense", MeanInterval(-3, -4, -2, 5)),
        ("equal measured time", Outcome.INCONCLUSIVE, "dense", None),
        ("control of equal MACs", Outcome.FAILS, "fewer-blocks", None),
    )
    names = ("question", "outcome", "other", "difference")
    tests = tuple(Claim(**dict(zip(names, claim, strict=True))) for claim in claims)
    return Decision(choice=choice, route="tread-2:8", tests=tests, **changes)


def slower(decision):
    """The same, with a route that is worse at equal time."""
    at_macs, at_time, control = decision.tests
    return replace(decision, tests=(at_macs, replace(at_time, outcome=Outcome.FAILS), control))


SOME, NONE = (made_of(Choice.UNDECIDED, finds=finds, seeds=seeds) for finds, seeds in ((1.2, 9), (0.01, None)))
FLAT = made_of(Choice.NOT_TRAINED, learning=Learning(iterations=(10, 1600), first={0: 394.4}, last={0: 405.0}))
SENTENCES = [
    (made_of(Choice.ROUTE), "Route it: tread-2:8 is better than dense at equal MACs and equal time"),
    (made_of(Choice.TIME_OPEN), "tread-2:8 is better than dense and every control at equal MACs; at equal time"),
    (made_of(Choice.CONTROL_OPEN), "tread-2:8 is better than dense at equal MACs, but not shown to be better"),
    (made_of(Choice.CONTROLS_MISSING), "tread-2:8 is better than dense at equal MACs; no control"),
    (made_of(Choice.MACS_NOT_TIME), "Do not route: tread-2:8 saves MACs, but at equal time"),
    (made_of(Choice.CONTROL_BETTER), "Do not route: at the same MACs the control fewer-blocks has a lower FID"),
    (made_of(Choice.WORSE), "Do not route: every route is worse than dense"),
    (SOME, "Undecided: tread-2:8's −3 FID at equal MACs is within the noise of 5 seeds; 9 seeds would probably"),
    (NONE, "Undecided: tread-2:8's −3 FID at equal MACs is within the noise of 5 seeds; 100 seeds would rarely"),
    (
        slower(SOME),
        "Undecided: 5 seeds do not settle it at equal MACs, 9 probably would; at equal time dense is better",
    ),
    (slower(NONE), "Undecided: 100 seeds would rarely settle it at equal MACs; at equal time dense"),
    (made_of(Choice.UNDECIDED), "Undecided: one seed has no interval. Run at least five"),
    (FLAT, "Not trained yet: dense has FID 394 at iteration 10 and 405 at 1,600, no fall"),
    (made_of(Choice.UNTESTED), "No decision: no route was compared with dense"),
]


@pytest.mark.parametrize(("made", "said"), SENTENCES)
def test_a_decision_is_one_sentence_of_at_most_twenty_words(made, said):
    whole = sentence(made)
    assert whole.startswith(said) and len(whole.split()) <= 20
    assert sentence(made, is_over=False) == f"So far: {whole}"
    regime = "16 tokens and 300 iterations"
    assert sentence(replace(made, regime=regime)).count(regime) == (made.choice is not Choice.UNTESTED)


def test_the_scope_has_the_size_of_the_network_or_the_range_of_several():
    one, several = Study(dense()).rows, Study(architectures()).rows
    sizes = [row.cost("params") / 1e6 for row in several]
    assert f", {one[0].cost('params') / 1e6:.3g}M parameters, " in scope(one)
    assert f", {min(sizes):.3g}M to {max(sizes):.3g}M parameters, " in scope(several)
    assert ", – parameters, " in scope(Study([record("dense", "", 0, 20.0, cost=None)]).rows)
    assert " iterations of 64 images from the weights of base at 1200: " in scope(Study(of_arm(start="base")).rows)


def test_the_strip_has_one_scale_around_zero():
    found = strip(made_of(Choice.ROUTE), 2)
    assert [mark.sign for mark in found] == ["✓", "?", "✗"] and len({mark.zero for mark in found}) == 1
    first = found[0]
    assert first.low < first.mean < first.high < first.zero
    places = [place for mark in found for place in (mark.zero, mark.mean, mark.low, mark.high) if place is not None]
    assert (min(places), max(places)) == (4, 96)  # of a width of 100
    assert (first.zero - first.high) / (first.zero - first.low) == pytest.approx(2 / 4, abs=1e-3)
    assert first.evidence == "−3.00 FID (−4.00 to −2.00), 5 seeds" and found[2].evidence == ""
    assert found[2].question == "Is tread-2:8 better than the control fewer-blocks?"
    assert [mark.answer for mark in found] == ["yes", "not certain", "no"]


@pytest.mark.parametrize(
    ("decision", "options"),
    [
        (SOME, "--set seeds=9"),
        (made_of(Choice.UNDECIDED), "--set seeds=5"),
        (NONE, None),
        (made_of(Choice.NOT_TRAINED), "--set training.iterations=4800 --out FOLDER"),
        (made_of(Choice.ROUTE), "--set backbone.depth=24 --out FOLDER"),
        (made_of(Choice.WORSE), None),
    ],
)
def test_the_reason_of_a_decision_chooses_what_to_run_next(decision, options):
    base = [record("dense", "", seed, 20.0) for seed in range(3)]
    found = next_step(decision, Study(base).rows)
    assert (found and found[1]) == options
    assert next_step(SOME, Study(base).rows, may_add_seeds=False) is None
