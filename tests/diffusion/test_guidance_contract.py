"""Every announced rule of guidance keeps the rules of docs/extending/guidance.md, whose tests find each broken one."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from pydantic import Field

from tests.shown_checks import failing
from tread_bench.core.describe.guidance import Blocks, Branch, GuidanceFamily, GuidanceOptions, guidance_rules
from tread_bench.core.describe.routes import Route

SETTINGS = [
    ("none", {}, "tread"),
    ("cfg", {}, "tread"),
    ("cfg", {"interval": [0.2, 0.8]}, "dense"),
    ("sparse", {}, "tread"),
    ("sparse", {"decay": "cosine", "label_weak": False, "blocks": "1:2"}, "dense"),
    ("sparse", {"snapshot": 3}, "tread"),
    ("tread", {}, "tread"),
    ("tread_released", {}, "tread"),
    ("autoguidance", {"snapshot": 0.5}, "tread"),
    ("autoguidance", {"row": "small"}, "dense"),
    ("path_drop", {}, "tread"),
    ("path_drop", {"label_weak": True}, "sprint"),
]


@pytest.mark.parametrize(("name", "options", "method"), SETTINGS, ids=str)
def test_every_announced_rule_keeps_the_contract(name, options, method):
    assert failing("guidance", RULE=guidance_rules()[name], OPTIONS=options, METHOD={"name": method}) == set()


def test_every_announced_rule_is_checked():
    assert {name for name, *_ in SETTINGS} == guidance_rules().keys()


class Rule(GuidanceOptions):
    """Routed guidance, which keeps the contract; the others vary it."""

    name: Literal["rule"] = "rule"
    blocks: Blocks = ()

    @property
    def routed_blocks(self):
        return self.blocks

    @property
    def rates(self):
        return 0.25, 0.75

    def at(self, rate):
        return tuple(Route(route.start, route.end, rate) for route in self.blocks)

    @property
    def branches(self):
        return Branch("strong", routes=self.at(0.25)), Branch("weak", routes=self.at(0.75))


class NoBranch(Rule):
    @property
    def branches(self):
        return None, None


class OtherRates(Rule):
    @property
    def rates(self):
        return 0.25, 0.5


class BlocksUnsaid(Rule):
    @property
    def routed_blocks(self):
        return None

    @property
    def rates(self):
        return ()

    @property
    def branches(self):
        return Branch("strong"), Branch("weak", routes=(Route(1, 2, 0.5),), drops_path=True)


class WeightsUnsaid(GuidanceOptions):
    name: Literal["rule"] = "rule"

    @property
    def branches(self):
        return Branch("strong"), Branch("weak", other_weights=True)


class ForgetsTheIteration(WeightsUnsaid):
    snapshot: int = 3

    @property
    def weak_snapshot(self):
        return self.snapshot

    def with_weights(self, row, iteration):
        return self

    @property
    def branches(self):
        return Branch("strong"), Branch("weak", other_weights=True)


class ForgetsTheBlocks(Rule):
    def with_blocks(self, blocks):
        return self.model_copy(update={"blocks": (Route(2, 2, 0),)})


class WritesLess(Rule):
    weak_rate: float = Field(0.75, exclude=True)

    def with_blocks(self, blocks):
        return super().with_blocks(blocks).model_copy(update={"weak_rate": 0.5})

    @property
    def rates(self):
        return 0.25, self.weak_rate

    @property
    def branches(self):
        return Branch("strong", routes=self.at(0.25)), Branch("weak", routes=self.at(self.weak_rate))


class NoDifference(GuidanceOptions):
    name: Literal["rule"] = "rule"

    @property
    def branches(self):
        return Branch("strong"), Branch("weak")


class Fickle(Branch):
    """Routed at another rate each time."""

    def routes_at(self, step, steps):
        return tuple(Route(route.start, route.end, random.choice([0.3, 0.5, 0.7, 0.9])) for route in self.routes)


class DrawsItsRate(Rule):
    @property
    def branches(self):
        return Branch("strong", routes=self.at(0.25)), Fickle("weak", routes=self.at(0.75))


BROKEN = {
    Rule: set(),  # which the others vary
    NoBranch: {"branches"},
    OtherRates: {"branches"},
    BlocksUnsaid: {"branches"},
    WeightsUnsaid: {"branches"},
    ForgetsTheIteration: {"written"},
    ForgetsTheBlocks: {"written"},
    WritesLess: {"written"},
    NoDifference: {"scale"},
    DrawsItsRate: {"scale", "batch", "cost"},
}


def announced(options):
    return GuidanceFamily(name="rule", options=options)


@pytest.mark.parametrize("options", BROKEN, ids=lambda options: options.__name__)
def test_each_check_finds_what_it_is_there_for(options):
    random.seed(0)
    assert failing("guidance", RULE=announced(options)) == BROKEN[options]
