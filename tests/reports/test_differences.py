"""Rows beside their references at equal cost, with figures worked out by hand."""

from __future__ import annotations

import csv
import io
import math
import re

import numpy as np
import pytest
from scipy import stats
from synthetic_budgets import (
    DENSE_END,
    DENSE_STEP,
    EIGHT,
    NOISE,
    ROUTE,
    ROUTED_END,
    ROUTED_STEP,
    SHIFTS,
    SIX_BLOCKS,
    SMALL_END,
    at_equal_time,
    budget_row,
    cell,
    dense,
    dense_curve,
    law,
    of_seeds,
    routed,
    smaller,
    to_budget,
)
from synthetic_records import cost, evaluation, failed, study, timing, view_of, with_macs

from tread_bench.core.numbers.statistics import paired_difference
from tread_bench.core.stored.records import EqualTime
from tread_bench.reports.cautions import of_rows
from tread_bench.reports.differences import END, ITERATIONS, MACS, TIME, differences
from tread_bench.reports.frame import results_frame
from tread_bench.reports.questions import controls, speed
from tread_bench.reports.study import Study
from tread_bench.reports.tables import as_csv

UNTIL = {"until": 0.8}  # of a schedule


def found_of(records):
    """The rows that are compared with others, by name."""
    return {row.name: row for row in Study(records).rows if row.differences}


def only(records):
    (found,) = found_of(records).values()
    return found


def test_a_row_with_a_budget_is_compared_end_with_end_and_at_the_references_last_iteration():
    found = only([*dense(), *budget_row()])
    assert found.compared(MACS).evaluated
    assert found.compared(MACS).cost == 64 * DENSE_STEP * DENSE_END
    expected = paired_difference(dict(enumerate(-2 + n for n in NOISE)), dict.fromkeys(range(5), 0.0))
    assert found.difference(MACS).bounds == pytest.approx(expected.bounds)
    at_iterations = found.difference(ITERATIONS)
    assert at_iterations.mean == pytest.approx(3.0) and found.difference(MACS).n == at_iterations.n == 5
    assert found.difference(TIME) is None and found.compared(END, "training_macs") is None  # two points are not a curve


def test_rows_of_one_comparison_are_one_group_whatever_their_length_and_architecture():
    records = [*smaller(19.0), *budget_row(), *of_seeds("dense-b", {DENSE_END: 20.3}, group=1), *dense()]
    rows = Study(records).rows
    assert [row.name for row in rows] == ["dense", "route", "dense-b", "smaller"]
    assert len({row.group for row in rows}) == 1 and rows[0].group.iteration == DENSE_END
    assert [row.is_dense for row in rows] == [True, False, False, False]
    assert len({row.short_label for row in rows}) == 4

    # At equal iterations, all are beside the dense row, seed by seed.
    found = found_of(records)
    means = {name: one.difference(ITERATIONS).mean for name, one in found.items()}
    assert means == pytest.approx({"route": 3.0, "dense-b": 0.3, "smaller": 4.0})
    assert {one.reference_name for one in found.values()} == {"dense"}
    assert found["dense-b"].compared(MACS).evaluated and found["dense-b"].difference(MACS).n == 5
    assert found["smaller"].difference(MACS).mean == pytest.approx(-1.0)


def test_without_a_budget_the_references_curve_is_interpolated_from_six_points_on():
    cells = [cell("dense", s, {i: law(i) * math.exp(SHIFTS[s]) for i in EIGHT}) for s in range(5)]
    cheap = [cell("route", s, {DENSE_END: law(DENSE_END) * math.exp(SHIFTS[s])}, ROUTE) for s in range(5)]
    found = only([*cells, *cheap])
    assert not found.compared(MACS).evaluated
    cheaper = DENSE_END * ROUTED_STEP / DENSE_STEP
    expected = {s: (law(DENSE_END) - law(cheaper)) * math.exp(SHIFTS[s]) for s in range(5)}
    assert found.difference(MACS).mean == pytest.approx(sum(expected.values()) / 5, rel=1e-9)
    assert found.difference(ITERATIONS).mean == pytest.approx(0.0)
    few = [one.model_copy(update={"evaluations": one.evaluations[-5:]}) for one in cells]
    assert only([*few, *cheap]).difference(MACS) is None


def test_a_dearer_row_is_interpolated_where_the_reference_ends_and_never_beyond():
    dearer = cost("").model_copy(update={"train_step_macs": 2 * DENSE_STEP})
    dear = routed(0.5, cost=dearer)
    found = only([*dense_curve(), *dear])
    assert found.compared(MACS).cost == 64 * DENSE_STEP * DENSE_END
    assert found.difference(MACS).mean == pytest.approx(law(600, 0.5) - law(1200), abs=0.01)
    late = [one.model_copy(update={"evaluations": one.evaluations[-6:]}) for one in dear]  # from 450 on: inside
    assert only([*dense(), *late]).difference(MACS).mean == pytest.approx(found.difference(MACS).mean, abs=0.05)
    later = [
        with_macs(one.model_copy(update={"cost": dearer.model_copy(update={"train_step_macs": 3 * DENSE_STEP})}))
        for one in late
    ]
    assert only([*dense(), *later]).difference(MACS) is None  # 400 comes before its first point


LINEAR, WSD = {"decay": {"name": "linear"}}, {"decay": {"name": "wsd", "share": 0.2}}


@pytest.mark.parametrize("settings", [{"schedule": UNTIL}, {"training": LINEAR}], ids=["schedule", "decay"])
def test_of_a_schedule_or_a_decay_only_the_end_is_compared(settings):
    found = only([*dense(), *budget_row(**settings)])
    assert found.difference(MACS).mean == pytest.approx(-2.0) and found.difference(ITERATIONS) is None
    assert only([*dense_curve(), *routed(0.5)]).compared(END, "training_macs") is not None
    assert only([*dense_curve(), *routed(0.5, **settings)]).compared(END, "training_macs") is None


def test_no_curve_of_decaying_rates_is_read():
    both = [*dense_curve(training=WSD), *routed(training=WSD)]
    assert only(both).difference(MACS) is None and only(both).compared(END, "training_macs") is None
    assert only(both).difference(ITERATIONS).mean == pytest.approx(0.0)  # end with end, of one length
    shorter = of_seeds("route", {600: 25.0}, routes=ROUTE)
    longer = {600: 30.0, DENSE_END: 20.0}
    assert only([*dense(longer), *shorter]).difference(ITERATIONS).mean == pytest.approx(-5.0)
    assert found_of([*dense(longer, training=LINEAR), *shorter]) == {}


def test_an_early_snapshot_of_a_decay_is_evaluated_and_not_compared():
    def scores(**decay):
        early = []
        for one in of_seeds("early", {600: 25.0}, routes=ROUTE, training=decay):
            training = {**one.config["training"], "iterations": DENSE_END}
            config = {**one.config, "training": training, "evaluate": {"row": "route"}}
            early.append(one.model_copy(update={"config": config}))
        return [row.scores for row in Study([*dense(), *early]).rows if row.name == "early"]

    assert len(scores()[0]["fid"]) == 5 and scores(**LINEAR) == [{}]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (LINEAR, "learning rate of route falls to zero.*only the end enters a comparison"),
        ({"optimizer": "muon"}, "different optimisers.*adamw trains dense; muon trains route"),
        ({}, None),
    ],
)
def test_what_rows_do_not_share_is_cautioned_about(settings, words):
    said = " ".join(of_rows(Study([*dense(), *budget_row(training=settings)]).rows))
    assert re.search(words, said) if words else "falls to zero" not in said and "optimisers" not in said


def test_a_row_with_a_budget_is_compared_where_it_was_evaluated_at_equal_time():
    cells = to_budget()
    fids = [18.0 + SHIFTS[seed] + NOISE[seed] for seed in range(5)]  # far from the curve, which must not count
    cells = [at_equal_time(one, 1300, fid) for one, fid in zip(cells, fids, strict=True)]
    found = only([*dense(), *cells])
    alone = paired_difference(dict(enumerate(-2 + n for n in NOISE)), dict.fromkeys(range(5), 0.0))
    assert found.compared(TIME).evaluated and found.difference(TIME).mean == pytest.approx(alone.mean)
    assert found.compared(TIME).cost == pytest.approx(DENSE_END * found.dense_step_ms / 1e3)

    # The interval is wider by what the clock may be off, along the slope of the row's own curve.
    points = {i: law(i) for i in (*EIGHT, ROUTED_END) if i >= 650} | {1300: 18.0}
    slope = stats.linregress(np.log([*points]), [*points.values()]).slope
    assert found.difference(TIME).low == pytest.approx(alone.low + slope * math.log(1.05))
    assert found.difference(TIME).high == pytest.approx(alone.high + slope * math.log(0.95))
    (_, sure, _) = found.sides(TIME)
    assert sure[0][0] == pytest.approx(fids[0] + slope * math.log(0.95))

    # An iteration at which some seed has no finite FID is no point of the slope.
    del points[1050]
    holes = [
        one.model_copy(update={"fid": {1050: math.inf}.get(one.iteration, one.fid)}) for one in cells[0].evaluations
    ]
    found = only([*dense(), cells[0].model_copy(update={"evaluations": holes}), *cells[1:]])
    slope = stats.linregress(np.log([*points]), [*points.values()]).slope
    assert found.difference(TIME).low == pytest.approx(alone.low + slope * math.log(1.05))


def test_under_a_schedule_the_slope_is_that_between_ends_of_trainings():
    cells = to_budget(schedule=UNTIL)
    cells = [at_equal_time(one, 1300, 18.0 + SHIFTS[seed] + NOISE[seed]) for seed, one in enumerate(cells)]
    found = only([*dense(), *cells])
    slope = (18.0 - law(ROUTED_END)) / math.log(1300 / ROUTED_END)
    alone = paired_difference(dict(enumerate(-2 + n for n in NOISE)), dict.fromkeys(range(5), 0.0))
    assert found.difference(TIME).low == pytest.approx(alone.low + slope * math.log(1.05))
    assert found.difference(TIME).high == pytest.approx(alone.high + slope * math.log(0.95))


def test_a_row_with_a_budget_that_was_not_evaluated_at_equal_time_is_not_compared_there():
    cells = to_budget()
    assert only([*dense_curve(), *cells]).difference(TIME) is None

    # Of seeds, those count that were evaluated where the first one was.
    some = [at_equal_time(cells[0], 1300, 18.0), at_equal_time(cells[1], 1300, 18.0), at_equal_time(cells[2], 900, 9.0)]
    assert only([*dense(), *some, *cells[3:]]).difference(TIME).n == 2


def timed_smaller(speedup, planned, fid, **timed):
    """Its curve, and its evaluation at equal time."""
    changes = {"timing": timing(speedup, 7).model_copy(update=timed), "equal_time": planned}
    changes |= {"at_equal_time": evaluation(planned.iteration, fid)}
    return of_seeds("smaller", {i: law(i) for i in (*EIGHT, SMALL_END)}, macs_of="dense", **SIX_BLOCKS | changes)


def test_steps_that_were_not_timed_in_pairs_are_compared_by_their_seconds_and_decide_nothing():
    records = [*dense_curve(), *timed_smaller(1.1, EqualTime(iteration=1300), 18.0)]
    found = only(records)
    assert found.difference(MACS) and found.compared(END, "training_macs") and len(found.sides(TIME)) == 1
    assert found.difference(TIME).n == 5 and found.difference(TIME).bounds is None
    table = columns(records)
    ratio = table["smaller"]["Images/s"].key / table["dense"]["Images/s"].key
    assert table["smaller"]["Speed-up"].key == pytest.approx(ratio)
    assert table["smaller"]["Speed-up"].below == table["smaller"]["Δ FID, equal time"].below == "not in pairs"


def test_a_control_that_was_timed_in_turn_with_dense_is_compared_with_it_in_pairs():
    reference, whole = dense_curve(), cost("").forward_macs
    in_turn = {"reference_backbone": reference[0].backbone, "reference_forward_macs": whole}
    there = EqualTime(iteration=2160, low=2100.0, high=2200.0)
    records = [*reference, *timed_smaller(1.8, there, 15.0, **in_turn)]
    found = only(records)
    assert found.compared(MACS).in_pairs and len(found.sides(TIME)) == 3 and found.difference(TIME).bounds
    ratio, low, high = found.speedup
    assert low < ratio < high and found.step_ms == pytest.approx(found.dense_step_ms / ratio)
    shown = columns(records)["smaller"]
    assert shown["Speed-up"].below and "not in pairs" not in str(shown.values())
    assert shown["Ideal"].key == pytest.approx(whole / cost("", 6).forward_macs)
    ideal = results_frame(records).groupby("row").ideal_speedup.unique().to_dict()
    assert ideal == {"smaller": [whole / cost("", 6).forward_macs], "dense": [1.0]}
    timed = speed.figure(Study([*records, *budget_row()]).rows)
    assert "smaller" in set(timed.lines.row)


def test_cost_to_come_down_to_the_references_end():
    found = only([*dense_curve(), *routed(0.8)]).compared(END, "training_macs")
    sooner = 0.8 ** (1 / 0.7) * ROUTED_STEP / DENSE_STEP
    assert found.estimate.mean == pytest.approx(sooner, rel=0.02)
    assert found.estimate.low <= found.estimate.mean <= found.estimate.high
    assert (found.estimate.n, found.reached) == (5, 5)
    found = only([*dense_curve(), *routed(1.5)]).compared(END, "training_macs")
    assert found.estimate.mean == found.estimate.high == math.inf and found.reached == 0


def test_an_end_that_the_reference_had_reached_before_is_no_target():
    fids = [34.0, 31.0, 33.5, 32.0, 34.5, 30.8, 33.0, 31.5]
    wobbling = dense(dict(zip(EIGHT, fids, strict=True)))
    found = only([*wobbling, *routed(0.8)])
    assert found.compared(END, "training_macs") is None and found.difference(MACS) is not None
    falling = [*dense_curve(), *routed(0.8)]
    assert only([one for one in falling if one.seed == 0]).compared(END, "training_macs") is None  # which may be chance


def test_the_row_that_a_budget_names_is_what_its_rows_are_compared_with():
    """A route without a budget, and no dense row at all."""
    named = of_seeds("named", {DENSE_END: 20.0}, routes="4:8@0.5", reference="")
    end = round(DENSE_END * cost("4:8@0.5").train_step_macs / ROUTED_STEP)
    fids = {DENSE_END: 17.0, end: 21.0}
    records = [*named, *of_seeds("route", fids, routes=ROUTE, macs_of="named", noise=NOISE, reference="")]
    found = only(records)
    assert [found.difference(at).mean for at in (MACS, ITERATIONS)] == pytest.approx([1.0, -3.0])
    view = view_of(records)
    column = view.columns["Δ FID"]
    assert column.hint == "paired difference to named"
    shown = {row.name: one.text for row, one in zip(view.members, column.entries, strict=True)}
    assert shown == {"named": "reference", "route": "−3.00"}


def test_the_table_of_all_cells_has_the_costs_of_the_curves():
    records = [*dense({600: 30.0, 1200: 20.0}), *budget_row()]
    rows = {row.name: row for row in Study(records).rows}
    table = results_frame(records)
    for row in rows.values():
        lines = table[(table.row == row.name) & (table.seed == 2)]
        assert list(lines.training_macs) == [64 * row.cost("train_step_macs") * i for i in lines.iteration]
        assert list(lines.paired_seconds) == pytest.approx([row.step_ms / 1e3 * i for i in lines.iteration])
    assert set(table[table.row == "route"].macs_of) == {"dense"} and table[table.row == "dense"].macs_of.isna().all()


@pytest.mark.parametrize("wait_ms", [10.0, 25.0])
def test_equal_time_takes_paired_steps_and_the_wait_for_data(wait_ms):
    def timed(speedup, wait_ms):
        return timing(speedup, 0).model_copy(update={"loop_time_ms": 100.0, "data_wait_share": wait_ms / 100})

    # A routed step of 1 / 1.25 of the dense one, and at both ends of that; only beside it there is waiting.
    found = only([*dense_curve(timing=timed(1.0, 0.0)), *routed(timing=timed(1.25, wait_ms))])
    dense_s = found.dense_step_ms / 1e3
    for speed_up, (own, other) in zip(found.speedup, found.sides(TIME), strict=True):
        share = (dense_s / speed_up + wait_ms / 1e3) / dense_s
        end = min(1.0, share) * DENSE_END  # the cheaper of the two, in dense iterations
        assert own[0] - other[0] == pytest.approx(law(end / share) - law(end), abs=0.02)
    assert found.compared(TIME).cost == pytest.approx(dense_s * min(1.0, share) * DENSE_END, rel=0.02)


def test_what_each_control_does_in_place_of_a_route_and_by_how_much_they_differ():
    skipping = of_seeds(
        "skip", {DENSE_END: 22.0, ROUTED_END: 18.05}, routes=ROUTE, method="layer_skip", macs_of="dense"
    )
    other_seeds = of_seeds("dense-b", {DENSE_END: 20.3}, group=1, noise=NOISE[::-1])
    records = [*dense(), *budget_row(), *smaller(21.0), *skipping, *other_seeds]
    rows = Study(records).rows
    route = next(row for row in rows if row.name == "route")
    chance, *others = controls.sentences(rows, route, 2)
    assert chance.startswith("Chance: dense-b, which is dense with other seeds, differs from it by +0.30 FID")
    skip, small = sorted(others, key=lambda said: "smaller" in said)
    assert small.startswith("route minus a smaller network, 6 instead of 12 blocks (smaller): −3.00 FID (")
    assert skip.startswith("route minus skipping layers at the same share (skip): −0.05 FID (")
    assert [row.name for row in rows if controls.is_control(row)] == ["skip", "smaller"]

    # Layers skipped at a share that the decided route lacks stand beside the best route of their share.
    wider = of_seeds("wider", {DENSE_END: 22.0, ROUTED_END: 15.0}, routes="2:8@0.6", macs_of="dense", cost=cost(ROUTE))
    rows = Study([*records, *wider]).rows
    decided = next(row for row in rows if row.name == "wider")
    skip, small = sorted(controls.sentences(rows, decided, 2)[1:], key=lambda said: "smaller" in said)
    assert skip.startswith("route minus skipping layers at the same share (skip): −0.05 FID (")
    assert small.startswith("wider minus a smaller network, 6 instead of 12 blocks (smaller): ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"backbone": "SiT (depth 12)"}, "minus another network, SiT (depth 12) (other): −"),
        ({"cost": cost("").model_copy(update={"dense_tokens": 4})}, "minus fewer tokens, 4 instead of 16: a larger"),
        ({}, "minus training dense for 1,200 iterations (other): −"),
    ],
)
def test_what_a_control_is_that_neither_skips_nor_has_fewer_blocks(changes, words):
    rows = Study([*dense(), *budget_row(), *of_seeds("other", {DENSE_END: 20.5}, macs_of="dense", **changes)]).rows
    (said,) = controls.sentences(rows, next(row for row in rows if row.name == "route"), 2)
    assert words in said


def test_a_control_stands_beside_routes_of_its_own_cost_alone():
    """Without budgets each is interpolated at its own end, or where the reference ends."""
    skipping = {"routes": ROUTE, "method": "layer_skip"}
    records = [*dense_curve(), *routed(0.8)]
    for times, is_compared in ((1.0, True), (1.02, True), (1.1, False)):
        dearer = cost(ROUTE).model_copy(update={"train_step_macs": round(times * ROUTED_STEP)})
        beside = [*records, *of_seeds("skip", {i: law(i, 0.9) for i in EIGHT}, cost=dearer, **skipping)]
        rows = {row.name: row for row in Study(beside).rows}
        found = controls.beside(rows["skip"], [rows["route"]])
        assert bool(found) is is_compared


def test_a_run_whose_rows_all_have_another_seed_group_has_its_dense_reference():
    rows = [*dense(group=1), *budget_row(group=1)]
    dense_cells = {record.seed: record.cell for record in rows if record.row == "dense"}
    found = only([record.model_copy(update={"reference": dense_cells[record.seed]}) for record in rows])
    assert found.reference_name == "dense" and found.difference(MACS).mean == pytest.approx(-2.0)


@pytest.mark.parametrize("has_evaluations", [False, True])
def test_rows_stay_one_comparison_where_the_row_that_their_budget_names_failed(has_evaluations):
    reference = [failed("dense", "", seed, "diverged") for seed in range(5)]
    if has_evaluations:
        reference = [one.model_copy(update={"evaluations": [evaluation(600, 25.0)]}) for one in reference]
    records = [*reference, *budget_row(), *smaller(21.0)]
    rows = Study(records).rows
    assert {row.group for row in rows} == {rows[0].group} and rows[0].group.iteration == DENSE_END
    assert found_of(records) == {}


def columns(records):
    view = view_of(records)
    found = {}
    for place, row in enumerate(view.members):
        found[row.name] = {title: column.entries[place] for title, column in view.columns.items()}
    return found


def test_the_table_of_rows_has_what_they_have_at_equal_cost():
    table = columns([*dense(), *budget_row(), *of_seeds("dense-b", {DENSE_END: 20.3}, group=1)])
    assert [table[row]["Δ FID, equal MACs"].text for row in ("dense", "dense-b", "route")] == ["–", "+0.30", "−2.00"]
    assert "MACs to target" not in table["route"]  # two points are not a curve
    assert not any("equal" in title for title in columns(study())["2:8"])

    # What was not reached has no number, in an exported table either.
    records = [*dense_curve(), *routed(1.5)]
    hint = view_of(records).columns["Δ FID, equal MACs"].hint
    assert hint.endswith("on the fit between evaluated points") and "as evaluated" not in hint
    shown = columns(records)["route"]["MACs to target"]
    assert (shown.text, shown.below) == ("not reached", "not reached to not reached") and math.isfinite(shown.key)
    (_, line) = csv.DictReader(io.StringIO(as_csv(view_of(records).as_table("comparison"))))
    assert line["MACs to target"] == "not reached" and float(line["FID"]) == pytest.approx(30.04)


def test_the_frame_has_a_line_for_each_way_of_comparing_with_unadjusted_intervals():
    records = [*dense_curve(), *budget_row()]
    frame = differences(results_frame(records))
    fids = frame[frame.metric == "fid"].set_index("at")
    found = only(records)
    for at, expected in ((MACS, found.difference(MACS)), (ITERATIONS, found.difference(ITERATIONS))):
        line = fids.loc[at]
        assert (line.row, line.reference, line.seeds, line.evaluated) == ("route", "dense", 5, True)
        assert (line.difference, line.low, line.high) == (expected.mean, expected.low, expected.high)
    assert {"validation_loss", "kid"} < set(frame.metric) and fids.loc[MACS].cost == 64 * DENSE_STEP * DENSE_END
