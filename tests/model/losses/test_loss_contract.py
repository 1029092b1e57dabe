"""Every announced auxiliary loss keeps the rules of docs/extending/loss.md, whose tests find each broken one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.methods.subjects import BACKBONES, OPTIONS, ROUTES
from tests.shown_checks import failing
from tread_bench.core.describe import methods as registry
from tread_bench.core.describe.methods import losses

MAE = losses.find("mae")
SETTINGS = [
    ("mae", {}, "tread"),
    ("mae", {"route_weights": [2.0], "weight": 0.3}, "drop"),
    ("repa", {"projector": 8, "block": 2}, "tread"),
    ("repa", {"projector": 8, "block": 3}, "tread"),
    ("repa", {"projector": 8}, "dense"),
    ("repa", {"projector": 8}, "sprint"),
]


@pytest.mark.parametrize(("name", "options", "method"), SETTINGS, ids=str)
def test_every_announced_loss_keeps_the_contract(name, options, method):
    chosen = {"name": method, **OPTIONS.get(method, {})}
    places = ROUTES.get(method, "1:3@0.5")
    assert failing("loss", LOSS=losses()[name], OPTIONS=options, METHOD=chosen, ROUTES=places) == set()


def test_a_loss_keeps_the_contract_on_a_network_with_long_skips():
    assert failing("loss", LOSS=MAE, BACKBONE=BACKBONES["U-ViT"]) == set()


def test_every_announced_loss_is_checked():
    assert {name for name, *_ in SETTINGS} == losses().keys()


def of_tests(builder, **changes):
    return replace(MAE, builder=f"tests.model.losses.broken:{builder}", **changes)


def that_reads(builder, **changes):
    return of_tests(builder, **{"reads_tokens": True, "needs_absent_tokens": False, **changes})


BROKEN = {
    "AsMae, which is sound": (of_tests("AsMae"), set()),
    "Energy, which is sound": (that_reads("Energy"), set()),
    "OneForEachSample": (of_tests("OneForEachSample"), {"value"}),
    "ForgetsTheWeight": (of_tests("ForgetsTheWeight"), {"weight"}),
    "TrainsNothing": (that_reads("TrainsNothing"), {"gradients"}),
    "reads tokens, unsaid": (that_reads("Energy", reads_tokens=False), {"tokens"}),
    "needs absent tokens, unsaid": (of_tests("AsMae", needs_absent_tokens=False), {"tokens"}),
    "needs no absent tokens": (that_reads("Energy", needs_absent_tokens=True), {"tokens"}),
    "SumsOverTheBatch": (of_tests("SumsOverTheBatch"), {"batch"}),
    "KeepsAState": (of_tests("KeepsAState"), {"state", "weight"}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name, monkeypatch):
    broken, expected = BROKEN[name]
    monkeypatch.setitem(registry.losses(), "mae", broken)
    assert failing("loss", LOSS=broken) == expected
