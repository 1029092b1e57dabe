"""From how many tokens on a route pays: the rule, the sentences, the picture and the page of rows that were timed."""

from __future__ import annotations

import pytest
from synthetic_records import NOTHING_MEASURED, cost, record, timing

from tread_bench.core.stored.records import Record
from tread_bench.reports.figures.draw import draw
from tread_bench.reports.figures.pictures import pictures
from tread_bench.reports.questions import break_even
from tread_bench.reports.row import side_by_side
from tread_bench.reports.study import Study

FAMILIES = {"DiT": "DiT (depth 12, hidden 32, heads 2, patch 2)", "DRWKV": "DRWKV (depth 12, hidden 32, patch 2)"}
ROUTES = {0.25: "2:8@0.25", 0.5: "2:8@0.5"}
INTERVALS = {  # (ratio, low, high) at 16, 64, 256 and 1,024 tokens
    ("DiT", 0.25): [(0.9, 0.85, 0.95), (0.99, 0.97, 1.01), (1.1, 1.05, 1.15), (1.2, 1.1, 1.3)],
    ("DiT", 0.5): [(1.02, 1.01, 1.03), (1.2, 1.1, 1.3), (1.4, 1.3, 1.5), (1.6, 1.5, 1.7)],
    ("DRWKV", 0.25): [(0.7, 0.6, 0.8), (0.8, 0.7, 0.9), (0.9, 0.8, 0.95), (1.0, 0.99, 1.02)],
    ("DRWKV", 0.5): [(1.2, 1.1, 1.3), (0.9, 0.8, 1.1), (0.95, 0.9, 1.0), (1.1, 1.05, 1.2)],
}
SIZES = {16: 8, 64: 16, 256: 32, 1024: 64}  # tokens -> side of an image


def timed(family: str, rate: float | None, place: int, **changes: object) -> Record:
    tokens, side = [*SIZES.items()][place]
    routes = ROUTES[rate] if rate else ""
    ratio, low, high = INTERVALS[family, rate][place] if rate else (1.0, 0.99, 1.01)
    of_image = cost(routes).model_copy(update={"dense_tokens": tokens})
    steps = timing(1.0, 0).model_copy(
        update={"speedup": ratio, "speedup_low": low, "speedup_high": high, "batch": 4096 // tokens}
    )
    own = {
        **NOTHING_MEASURED,
        "cell": f"{family}-{rate}-{tokens}", "reference": f"{family}-None-{tokens}", "train_loss": [],
        "backbone": FAMILIES[family], "family": family, "cost": of_image, "timing": steps, "train_seconds": None,
        "config": {"data": {"name": "random_latents", "image_size": side}, "training": {"iterations": 0, "batch": 4}},
    }  # fmt: skip
    return record(f"{family}-{rate}-{tokens}", routes, 0, None, **{**own, **changes})


def study() -> list[Record]:
    return [timed(family, rate, k) for family in FAMILIES for rate in (None, *ROUTES) for k in range(len(SIZES))]


@pytest.fixture(scope="module")
def rows():
    (found,) = side_by_side(Study(study()).rows)  # whatever their data
    return found


def test_rows_stand_by_number_of_tokens(rows):
    labels = [row.name for row in rows]
    assert len(set(labels)) == len(labels) == 24
    assert labels[:4] == ["DRWKV-None-16", "DRWKV-0.25-16", "DRWKV-0.5-16", "DRWKV-None-64"]


def test_a_route_pays_from_where_its_whole_interval_lies_above_1_and_stays_there(rows):
    starts = break_even.timed(rows).groupby(["architecture", "route"]).pays_from.first()
    assert starts.astype(object).where(starts.notna(), None).to_dict() == {
        ("DiT", "dense"): None,
        ("DiT", "2:8@0.25"): 256,
        ("DiT", "2:8@0.5"): 16,
        ("DRWKV", "dense"): None,
        ("DRWKV", "2:8@0.25"): None,
        ("DRWKV", "2:8@0.5"): 1024,  # faster at 16, and no longer at 64
    }


def test_the_verdict_is_on_speed_alone(rows):
    summary = "in DiT from 16 tokens on (2:8@0.5) and in DRWKV from 1,024 tokens on (2:8@0.5)."
    assert break_even.summary(rows) == f"On this machine a route pays {summary}"
    said = {architecture: statement for architecture, _, statement in break_even.statements(rows)}
    assert said["DiT"].startswith("2:8@0.25 pays from 256 tokens on (1.10 times as fast; at 1,024 1.20); 2:8@0.5 pays")
    assert "on, the fewest measured (1.02 times as fast; at 1,024 1.60)" in said["DiT"]
    not_here, at_most = said["DRWKV"].split("; ")
    assert "from any of 16 to 1,024 tokens on (not distinguishable at 1,024: 1.00 times as fast, 0.99 to" in not_here
    assert "pays at 1,024 tokens, the most measured (1.10 times as fast)" in at_most
    assert "Timed: steps of 256 images of 16 tokens, 64 images of 64 tokens" in break_even.rule(rows)


def named(family, rates=(None, 0.5)):
    """The rows of DiT at these rates, under the name of another architecture."""
    found = []
    for one in (timed("DiT", rate, place) for rate in rates for place in range(4)):
        own = {name: getattr(one, name).replace("DiT", family) for name in ("cell", "reference", "row")}
        own |= {"family": family, "backbone": f"{family} (depth 12, hidden 32, patch 2)"}
        found.append(one.model_copy(update=own))
    return found


SLOW = [timed("DRWKV", rate, place) for rate in (None, 0.25) for place in range(4)]


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([*named("SiT"), *named("U-ViT")], "all 3 architectures from 16 tokens on."),
        ([*named("SiT"), *named("U-ViT", (None,))], "DiT and SiT from 16 tokens on."),
        ([*named("SiT"), *SLOW], "DiT and SiT from 16 tokens on; in DRWKV none pays."),
    ],
)
def test_architectures_that_pay_from_the_same_number_on_are_named_together(others, said):
    assert break_even.summary(Study([*named("DiT"), *others]).rows) == f"On this machine a route pays in {said}"


def test_where_nothing_pays_or_nothing_was_timed_the_verdict_says_so():
    none = break_even.summary(Study([timed("DRWKV", 0.25, k) for k in range(4)]).rows)
    assert none.startswith("On this machine no route pays at any number of tokens that was measured, in DRWKV (depth")
    failed = [timed("DiT", rate, 0, status="failed", reason="out of memory", timing=None) for rate in (None, 0.5)]
    assert break_even.summary(Study(failed).rows).startswith("No speed was measured")


def test_the_picture_has_every_point_and_where_each_route_begins_to_pay(rows):
    picture = draw(break_even.figure(rows))
    lines = {line["row"]: line for line in picture.numbers}
    assert len(picture.numbers) == len(lines) == 24
    point = lines["DiT-0.25-256"]
    assert (point["tokens of an image"], point["images per step"], point["ideal"]) == ("256", "16", "1.16")
    assert (point["speed-up of a training step"], point["95 % interval"]) == ("1.100", "1.050 to 1.150")
    assert lines["DiT-None-64"]["pays from"] == "control" and lines["DRWKV-0.25-16"]["pays from"] == "never here"
    assert {lines[f"DiT-0.5-{tokens}"]["pays from"] for tokens in (16, 64, 256)} == {"16"}


def test_rows_of_one_size_or_that_were_trained_have_no_such_picture(rows):
    assert draw(break_even.figure([row for row in rows if row.cost("dense_tokens") == 16])) is None
    trained = Study([record("dense", "", 0, 17.0), record("2:8", "2:8@0.5", 0, 18.0)]).rows
    assert draw(break_even.figure(trained)) is None and not break_even.is_about_speed(trained)


def test_the_page_leads_with_speed_and_claims_nothing_else(page_of, tmp_path):
    page = page_of(study(), drawn=pictures)
    assert "On this machine a route pays" in page and "shaded row has the lowest FID" not in page
    assert {file.stem for file in (tmp_path / "figures").glob("*.svg")} == {"break_even"}
    assert page.index('id="break_even-title"') < page.index('<th scope="row" data-key="DRWKV-None-16">')
