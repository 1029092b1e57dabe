"""What a token costs in multiply-adds, and from how many tokens on linear mixing is said to need fewer."""

from __future__ import annotations

import pytest
from synthetic_records import drawn_alone
from test_time_per_token import ATTENTION, LINEAR, QUADRATIC, over, rows_of, study

from tread_bench.reports.claims.macs_per_token import beside_attention, courses, summaries
from tread_bench.reports.figures.per_token import macs_per_token as draw


def with_macs(records, **macs):
    """The records of mixers with so many multiply-adds per token at each number of tokens, mixing as it was."""
    wanted = {name: iter(values) for name, values in macs.items()}
    return [
        one.model_copy(update={"cost": _costing(one.cost, next(wanted[name]))})
        for one in records
        if (name := one.cell.partition("-")[0]) in wanted
    ]


def _costing(cost, per_token):
    return cost.model_copy(update={"forward_macs": round(per_token * cost.dense_tokens)})


SOFTMAX = (10e6, 12e6, 20e6, 52e6)
MACS = {
    "early": (16e6, 15e6, 15e6, 15e6),
    "crossing": (9e6, 20e6, 15e6, 15e6),  # fewer at the fewest tokens, and no longer at 64
    "slow": (70e6, 60e6, 60e6, 60e6),
}


def test_fewer_are_needed_from_where_on_no_number_of_tokens_needs_as_many():
    found = beside_attention(courses(rows_of(with_macs(study(), attention=SOFTMAX, **MACS))))
    assert [(one.linear.points[0].row.first.cell.partition("-")[0], one.tokens) for one in found] == [
        ("crossing", 256), ("early", 256), ("slow", None)
    ]  # fmt: skip
    assert [one.ratio for one in found] == pytest.approx([52 / 15, 52 / 15, 52 / 60])
    equal = with_macs(study(), attention=SOFTMAX, early=SOFTMAX)
    assert [one.tokens for one in beside_attention(courses(rows_of(equal)))] == [None]


@pytest.mark.parametrize(
    "others",
    [
        [],
        over("early", LINEAR["early"], family="DRWKV"),
        over("early", LINEAR["early"], hidden=64),
        over("early", LINEAR["early"], mixes=False),
        over("early", LINEAR["early"], 0.5),
    ],
    ids=["alone", "another family", "another width", "no mixing", "another route"],
)
def test_what_differs_in_more_than_its_mixing_is_not_compared(others):
    assert beside_attention(courses(rows_of([*ATTENTION, *others]))) == []


def test_dense_and_routed_networks_have_a_sentence_each():
    half = [one for name, us in {**QUADRATIC, **LINEAR}.items() for one in over(name, us, 0.5)]
    counted = [with_macs(records, attention=SOFTMAX, **MACS) for records in (study(), half)]
    dense, routed = summaries(rows_of([*counted[0], *counted[1]]))
    for said, way in ((dense, "Dense"), (routed, "Routed")):
        assert said.startswith(f"{way}, a forward pass needs fewer multiply-adds than with softmax attention")
        both = "from 256 tokens on in DiG (mixer crossing) [3.47 at 1,024] and DiG (mixer early) [3.47 at 1,024]"
        assert both in said and "; at no number of tokens in DiG (mixer slow) [0.87 at 1,024]" in said
    assert summaries(rows_of(over("early", LINEAR["early"]))) == summaries([]) == []


def test_the_picture_has_panels_of_what_there_is():
    half = [one for name, us in {**QUADRATIC, **LINEAR}.items() for one in over(name, us, 0.5)]
    for records, panels, table in ((study(), 1, 16), ([*study(), *half], 2, 32)):
        picture = drawn_alone(draw, rows_of(records))
        assert picture.svg.count(b">dense<") + picture.svg.count(b">routed<") == panels and len(picture.table) == table
        assert b">MMACs of recurrences per token<" not in picture.svg
    scanning = [
        one.model_copy(update={"cost": one.cost.model_copy(update={"scan_macs": 64 * one.cost.dense_tokens})})
        for one in over("early", LINEAR["early"])
    ]
    picture = drawn_alone(draw, rows_of([*ATTENTION, *scanning]))
    assert b">MMACs of recurrences per token<" in picture.svg and picture.svg.count(b">dense<") == 2
    assert draw([]) is None
