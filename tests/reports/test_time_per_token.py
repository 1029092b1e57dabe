"""What a token costs in time, and from how many tokens on linear time is said to pay against attention."""

from __future__ import annotations

import pytest
from synthetic_records import NOTHING_MEASURED, cost, drawn_alone, record, render, timing

from tread_bench.reports.claims.macs_per_token import beside_attention
from tread_bench.reports.claims.time_per_token import paces, summary
from tread_bench.reports.figures.pictures import pictures
from tread_bench.reports.figures.speed import time_per_token as draw
from tread_bench.reports.rows.architectures import side_by_side
from tread_bench.reports.rows.comparison import comparison

SIZES = {16: 8, 64: 16, 256: 32, 1024: 64}  # tokens -> side of an image
BATCH = 4
QUADRATIC = {"attention": (10.0, 12.0, 20.0, 52.0)}  # µs per token; times of a token and its multiply-adds rise alike
LINEAR = {
    "early": (20.0, 16.0, 15.0, 15.0),
    "crossing": (9.0, 20.0, 15.0, 15.0),  # faster at the fewest, and no longer at 64
    "slow": (70.0, 60.0, 60.0, 60.0),
}


def timed(
    mixer,
    us,
    tokens,
    rate=0.0,
    spread=0.02,
    family="DiG",
    mixes=True,
    moment=1.0,
    hidden=32,
    place="2:8",
    batch=BATCH,
    auxiliary=(),
):
    """`moment`: how much slower the machine was when a row was timed; a routed step takes half of a dense one.

    `spread`: how far the two values of each measurement lie from their median.
    """
    routes = f"{place}@{rate:g}" if rate else ""
    mixing = (500.0 if mixer in QUADRATIC else 30_000.0 / tokens) * tokens**2 if mixes else 0
    kinds = {"attention_macs": round(mixing), "scan_macs": 0, "forward_macs": round(1e6 * tokens + mixing)}
    of_image = cost(routes).model_copy(update={"dense_tokens": tokens, **kinds})
    ms = moment * us * tokens * batch / 1e3
    either_side = [ms * (1 - spread), ms * (1 + spread)]
    own_time = {
        "step_times_ms": either_side,
        "reference_step_times_ms": [one * (2 if rate else 1) for one in either_side],
        "batch": batch,
    } | ({"speedup": 2.0, "speedup_low": 1.9, "speedup_high": 2.1} if rate else {})
    sizes = f"depth 12, hidden {hidden}, heads 1, mixer {mixer}, patch 2"
    name = f"{mixer}-{place}-{rate}-{hidden}" + f"-{batch}" * (batch != BATCH) + "-mae" * bool(auxiliary)
    own = {
        **NOTHING_MEASURED,
        "cell": f"{name}-{tokens}", "reference": f"{mixer}-2:8-0.0-{hidden}-{tokens}", "train_loss": [],
        "backbone": f"{family} ({sizes})", "family": family,
        "cost": of_image, "timing": timing(1.0, 0).model_copy(update=own_time), "train_seconds": None,
        "config": {
            "data": {"name": "random_latents", "image_size": SIZES[tokens]},
            "training": {"iterations": 0, "batch": batch},
            "auxiliary": list(auxiliary),
        },
    }  # fmt: skip
    return record(f"{name}-{tokens}", routes, 0, None, **own)


def over(mixer, times, *args, **changes):
    """A record at each number of tokens."""
    return [timed(mixer, us, tokens, *args, **changes) for us, tokens in zip(times, SIZES, strict=True)]


def study(**changes):
    return [one for name, times in {**QUADRATIC, **LINEAR}.items() for one in over(name, times, **changes)]


def rows_of(records):
    (found,) = side_by_side(comparison(records))
    return found


def test_a_pace_is_the_time_of_a_step_over_its_images_and_tokens():
    found = {pace.architecture.split()[-1].strip("()"): pace for pace in paces(rows_of(study()))}
    assert found.keys() == {*QUADRATIC, *LINEAR}
    assert [point.us.mean for point in found["early"].points] == pytest.approx(LINEAR["early"])
    assert found["early"].points[0].us.bounds == pytest.approx((19.6, 20.4))
    assert {name: pace.grows for name, pace in found.items()} == {
        "attention": True, "early": False, "crossing": False, "slow": False
    }  # fmt: skip


def test_the_interval_of_a_step_has_all_moments_at_which_its_dense_twin_was_timed():
    """Dense took 20 µs when it was timed itself, and 30 and 24 beside two routes, which took half of it each."""
    routes = [*over("early", [10] * 4, 0.5, moment=1.5), *over("early", [10] * 4, 0.25, moment=1.2)]
    found = {pace.rate: pace.points[0].us for pace in paces(rows_of([*over("early", [20] * 4), *routes]))}
    assert found[0.0].mean == pytest.approx(24)  # of 20, 30 and 24
    assert found[0.0].bounds == pytest.approx((20 * 0.98, 30 * 1.02))
    for rate in (0.25, 0.5):
        assert found[rate].mean == pytest.approx(12)
        assert found[rate].bounds == pytest.approx((20 * 0.98 / 2.1, 30 * 1.02 / 1.9))


def test_dense_steps_of_other_batches_do_not_count():
    """A dense step of 4 images takes 40 µs per token, one of 32 takes 20, and a routed one half of that."""
    rows = rows_of([*over("early", [40] * 4), *over("early", [10] * 4, 0.5, batch=32)])
    found = {pace.route: pace.points[0].us.mean for pace in paces(rows)}
    assert found == {"dense": pytest.approx(40), "2:8@0.5": pytest.approx(10)}


def test_an_auxiliary_loss_does_not_pass_for_dense_or_for_the_plain_route():
    loss = ({"name": "mae"},)
    own = [*over("early", LINEAR["early"], auxiliary=loss), *over("attention", QUADRATIC["attention"], auxiliary=loss)]
    rows = rows_of([*study(), *own])
    assert {pace.route for pace in paces(rows)} == {"dense", "dense + mae"}
    assert summary(rows) == summary(rows_of(study()))
    assert drawn_alone(draw, rows).svg.count(b">dense<") == 1
    both = rows_of([*over("early", [5] * 4, 0.5), *over("early", [5] * 4, 0.5, auxiliary=loss)])
    assert [(pace.route, len(pace.points)) for pace in paces(both)] == [("2:8@0.5", 4), ("tread + mae 2:8@0.5", 4)]


def test_linear_time_pays_where_its_interval_stays_below_that_of_attention():
    found = beside_attention(paces(rows_of(study())))
    assert {one.linear.points[0].row.first.backbone.split("mixer ")[1].split(",")[0]: one.tokens for one in found} == {
        "early": 256, "crossing": 256, "slow": None
    }  # fmt: skip
    assert [one.ratio for one in found] == pytest.approx([52 / 15, 52 / 15, 52 / 60])
    wide = beside_attention(paces(rows_of(study(spread=0.2))))
    assert [one.tokens for one in wide] == [1024, 1024, None]  # at 256 the intervals overlap


ATTENTION = over("attention", QUADRATIC["attention"])


@pytest.mark.parametrize(
    "others",
    [
        [],
        over("early", LINEAR["early"], family="DRWKV"),
        over("early", LINEAR["early"], hidden=64),
        over("early", LINEAR["early"], mixes=False),
        [*over("early", LINEAR["early"], 0.5), *over("attention", QUADRATIC["attention"], 0.5, place="3:9")],
        over("early", LINEAR["early"])[:1],
    ],
    ids=["alone", "another family", "another width", "no mixing", "another route", "one number of tokens"],
)
def test_what_differs_in_more_than_its_mixing_is_not_compared(others):
    assert beside_attention(paces(rows_of([*ATTENTION, *others]))) == []


def test_the_most_tokens_are_those_that_both_have():
    """Attention ran out of memory at 1,024."""
    (found,) = beside_attention(paces(rows_of([*ATTENTION[:-1], *over("early", LINEAR["early"])])))
    assert (found.tokens, found.most, found.ratio) == (256, 256, pytest.approx(20 / 15))


def test_two_routes_of_one_rate_are_paces_of_their_own_and_two_batches_are_none():
    rows = rows_of([*ATTENTION, *over("attention", [5] * 4, 0.5), *over("attention", [5] * 4, 0.5, place="3:9")])
    assert [len(pace.points) for pace in paces(rows)] == [4, 4, 4]
    assert drawn_alone(draw, rows).svg.count(b">rate 0.5<") == 0
    twice = [one.model_copy(update={"row": f"{one.row} again", "cell": f"{one.cell}-again"}) for one in ATTENTION]
    assert paces(rows_of([*ATTENTION, *twice])) == []


def test_the_sentence_names_all_of_them():
    said = summary(rows_of(study()))
    both = "DiG (mixer crossing) [3.47 at 1,024] and DiG (mixer early) [3.47 at 1,024]"
    assert f"linear time pays from 256 tokens on in {both}" in said
    assert "it is not shown to in DiG (mixer slow) [0.87 at 1,024] (in brackets, how many times as fast" in said
    alone = [*ATTENTION, *over("slow", LINEAR["slow"])]
    assert "linear time is not shown to pay in" in summary(rows_of(alone))
    assert summary(rows_of(over("early", LINEAR["early"]))) == ""


def test_the_picture_has_a_panel_of_dense_networks_and_one_of_the_rate_that_most_have():
    half = [one for name, us in {**QUADRATIC, **LINEAR}.items() for one in over(name, [x / 2 for x in us], 0.5)]
    one_more = over("early", [x / 3 for x in LINEAR["early"]], 0.75)
    without_one = [one for one in half if not one.cell.startswith("slow")]
    for routed, table in ((half, 36), (without_one, 32)):
        picture = drawn_alone(draw, rows_of([*study(), *routed, *one_more]))
        assert len(picture.table) == table
        assert {line[-2] for line in picture.table} == {"dense", "2:8@0.5", "2:8@0.75"}
        assert b">rate 0.5<" in picture.svg and b">dense<" in picture.svg and b"rate 0.75" not in picture.svg
    pays = {(line[0].split("-")[0], line[-2]): line[-1] for line in picture.table}
    assert pays["early", "dense"] == pays["early", "2:8@0.5"] == "256"
    assert (pays["slow", "dense"], pays["attention", "dense"], pays["early", "2:8@0.75"]) == ("not shown", "–", "–")
    assert "Linear time pays beside softmax attention from" in picture.caption


def test_rows_of_a_route_alone_are_drawn_without_a_panel_of_dense_ones():
    half = [one for name, us in {**QUADRATIC, **LINEAR}.items() for one in over(name, [x / 2 for x in us], 0.5)]
    picture = drawn_alone(draw, rows_of(half))
    assert b">rate 0.5<" in picture.svg and b">dense<" not in picture.svg


def test_one_number_of_tokens_or_a_training_has_no_such_picture():
    assert drawn_alone(draw, rows_of([one for one in study() if one.cell.endswith("-16")])) is None
    assert paces([]) == []
    assert drawn_alone(draw, comparison([record("dense", "", 0, 17.0), record("2:8", "2:8@0.5", 0, 18.0)])) is None


def test_the_page_says_it(tmp_path):
    records = study()
    render(records, {"cells": [one.cell for one in records]}, tmp_path, pictures=pictures)
    page = (tmp_path / "index.html").read_text()
    assert "linear time pays from" in page and "Time per token" in page
    assert (tmp_path / "figures" / "time_per_token.svg").is_file()
