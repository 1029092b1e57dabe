"""Every announced selector keeps the rules of docs/extending/selector.md, whose tests find each broken one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.shown_checks import failing
from tread_bench.core.describe import selectors as registry
from tread_bench.core.describe.selectors import selectors
from tread_bench.model.ops.selecting import select

RANDOM, ROWS = selectors.find("random"), selectors.find("rows")


def of_tests(ranking, **changes):
    return replace(RANDOM, ranking=f"tests.model.selectors.broken:{ranking}", **changes)


@pytest.mark.parametrize("name", selectors())
def test_every_announced_selector_keeps_the_contract(name):
    assert failing("selector", SELECTOR=selectors()[name]) == set()


BROKEN = {
    "rank_half": (of_tests("rank_half"), {"ids", "batch", "grid", "meta"}),
    "rank_by_the_batch": (of_tests("rank_by_the_batch"), {"batch"}),
    "rows, unsaid": (replace(ROWS, needs_grid=False), {"grid"}),
    "rank_in_numpy": (of_tests("rank_in_numpy"), {"meta"}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name):
    broken, expected = BROKEN[name]
    assert failing("selector", SELECTOR=broken) == expected


def test_a_ranking_that_leaves_tokens_out_is_refused_where_it_is_used(monkeypatch):
    monkeypatch.setitem(registry.selectors(), "random", of_tests("rank_half"))
    with pytest.raises(ValueError, match=r"selector random returned ranks \(2, 8\) for scores \(2, 16\)"):
        select("random", torch.rand(2, 16), (4, 4), 8)
