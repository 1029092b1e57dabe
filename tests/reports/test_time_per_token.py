"""What a token costs in time, and from how many tokens on linear time is said to pay against attention."""

from __future__ import annotations

import pytest
from synthetic_records import NOTHING_MEASURED, cost, drawn_alone, record, render, timing

from tread_bench.reports.claims.time_per_token import overtakings, paces, summary
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


def timed(mixer, us, tokens, rate=0.0, spread=0.02, family="DiG", mixes=True, moment=1.0):
    """`moment`: how much slower the machine was when a row was timed; a routed step takes half of a dense one."""
    routes = f"2:8@{rate:g}" if rate else ""
    each = 1e6 + (500.0 * tokens if mixer in QUADRATIC else 0)
    kinds = {"attention_macs": 100, "scan_macs": 0} if mixes else {"attention_macs": 0, "scan_macs": 0}
    of_image = cost(routes).model_copy(update={"dense_tokens": tokens, "forward_macs": round(each * tokens), **kinds})
    ms = us * tokens * BATCH / 1e3
    own_time = {
        "step_time_ms": ms,
        "step_time_low_ms": ms * (1 - spread),
        "step_time_high_ms": ms * (1 + spread),
        "step_times_ms": [moment * ms] * 3,
        "reference_step_times_ms": [moment * ms * (2 if rate else 1)] * 3,
        "batch": BATCH,
    } | ({"speedup": 2.0, "speedup_low": 1.9, "speedup_high": 2.1} if rate else {})
    own = {
        **NOTHING_MEASURED,
        "cell": f"{mixer}-{rate}-{tokens}", "reference": f"{mixer}-0.0-{tokens}", "train_loss": [],
        "backbone": f"{family} (depth 12, hidden 32, heads 1, mixer {mixer}, patch 2)", "family": family,
        "cost": of_image, "timing": timing(1.0, 0).model_copy(update=own_time), "train_seconds": None,
        "config": {
            "data": {"name": "random_latents", "image_size": SIZES[tokens]},
            "training": {"iterations": 0, "batch": BATCH},
        },
    }  # fmt: skip
    return record(f"{mixer}-{rate}-{tokens}", routes, 0, None, **own)


def study(**changes):
    every = {**QUADRATIC, **LINEAR}
    return [timed(name, us, tokens, **changes) for name in every for us, tokens in zip(every[name], SIZES, strict=True)]


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
    routes = [timed("early", 20 / 2, 16, 0.5, moment=1.5), timed("early", 20 / 2, 16, 0.25, moment=1.2)]
    dense, half, quarter = paces(rows_of([timed("early", 20, 16), *routes]))[:3]
    (dense, half, quarter) = sorted((dense, half, quarter), key=lambda pace: (pace.rate > 0, -pace.rate))
    assert dense.points[0].us.mean == pytest.approx(22)  # of 20, 20, 30 and 24
    assert dense.points[0].us.bounds == pytest.approx((19.6, 30))
    for routed in (half, quarter):
        assert routed.points[0].us.mean == pytest.approx(11)
        assert routed.points[0].us.bounds == pytest.approx((19.6 / 2.1, 30 / 1.9))


def test_linear_time_pays_where_its_interval_stays_below_that_of_attention():
    found = overtakings(paces(rows_of(study())))
    assert {one.linear.points[0].row.first.backbone.split("mixer ")[1].split(",")[0]: one.tokens for one in found} == {
        "early": 256, "crossing": 256, "slow": None
    }  # fmt: skip
    assert [one.ratio for one in found] == pytest.approx([52 / 15, 52 / 15, 52 / 60])
    wide = overtakings(paces(rows_of(study(spread=0.2))))
    assert [one.tokens for one in wide] == [1024, 1024, None]  # at 256 the intervals overlap


def test_another_family_another_rate_and_a_frame_without_a_mixer_are_not_compared():
    assert overtakings(paces(rows_of([r for r in study() if "attention" not in r.cell]))) == []
    attention = [one for one in study() if one.cell.startswith("attention")]
    linear = [timed("early", us, tokens, family="DRWKV") for us, tokens in zip(LINEAR["early"], SIZES, strict=True)]
    assert overtakings(paces(rows_of([*attention, *linear]))) == []
    frame = [timed("early", us, tokens, mixes=False) for us, tokens in zip(LINEAR["early"], SIZES, strict=True)]
    assert overtakings(paces(rows_of([*attention, *frame]))) == []
    routed = [timed("early", us, tokens, rate=0.5) for us, tokens in zip(LINEAR["early"], SIZES, strict=True)]
    assert overtakings(paces(rows_of([*attention, *routed]))) == []


def test_the_sentence_names_all_of_them():
    said = summary(rows_of(study()))
    assert "linear time pays from 256 tokens on in DiG (mixer crossing) [3.47] and DiG (mixer early) [3.47]" in said
    assert "not shown to in DiG (mixer slow) [0.87] (in brackets, how many times as fast at 1,024 tokens)." in said
    alone = [one for one in study() if one.cell.startswith(("attention", "slow"))]
    assert "linear time is not shown to pay in" in summary(rows_of(alone))
    assert summary(rows_of([one for one in study() if one.cell.startswith("early")])) == ""


def test_the_picture_has_a_panel_of_dense_networks_and_one_of_the_rate_that_all_have():
    every = {**QUADRATIC, **LINEAR}
    half = [timed(name, us / 2, tokens, 0.5) for name in every for us, tokens in zip(every[name], SIZES, strict=True)]
    one_more = [timed("early", us / 3, tokens, 0.75) for us, tokens in zip(LINEAR["early"], SIZES, strict=True)]
    picture = drawn_alone(draw, rows_of([*study(), *half, *one_more]))
    assert len(picture.table) == 4 * 4 * 2 + 4
    assert {line[-2] for line in picture.table} == {"dense", "0.50", "0.75"}
    pays = {(line[0].split("-")[0], line[-2]): line[-1] for line in picture.table}
    assert pays["early", "dense"] == pays["early", "0.50"] == "256"
    assert (pays["slow", "dense"], pays["attention", "dense"], pays["early", "0.75"]) == ("not shown", "–", "–")
    assert b">rate 0.5<" in picture.svg and b">dense<" in picture.svg and b"rate 0.75" not in picture.svg
    assert "Linear time pays beside softmax attention from" in picture.caption


def test_one_number_of_tokens_or_a_training_has_no_such_picture():
    assert drawn_alone(draw, rows_of([one for one in study() if one.cell.endswith("-16")])) is None
    assert drawn_alone(draw, comparison([record("dense", "", 0, 17.0), record("2:8", "2:8@0.5", 0, 18.0)])) is None


def test_the_page_says_it(tmp_path):
    records = study()
    render(records, {"cells": [one.cell for one in records]}, tmp_path, pictures=pictures)
    page = (tmp_path / "index.html").read_text()
    assert "linear time pays from" in page and "Time per token" in page
    assert (tmp_path / "figures" / "time_per_token.svg").is_file()
