"""Every announced method keeps the contract, and each check finds what it is there for."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from tests.announced import announce
from tests.model.methods.subjects import BACKBONES, OPTIONS, ROUTES
from tests.pairs import in_turn
from tread_bench.contract import check_method
from tread_bench.core.describe import methods as registry
from tread_bench.core.describe import plugins
from tread_bench.core.describe.methods import MethodOptions, methods
from tread_bench.model.contract.methods import METHOD_CHECKS

TREAD = methods.find("tread")


@pytest.mark.parametrize(("name", "backbone"), in_turn(methods(), BACKBONES))
def test_every_announced_method_keeps_the_contract(name, backbone):
    options, routes = OPTIONS.get(name), ROUTES.get(name, "1:3@0.5")
    assert check_method(methods()[name], routes=routes, options=options, backbone=BACKBONES[backbone]) == []


BROKEN = {
    "OwnsParametersUnsaid": ({}, {"modules", "evaluated"}),
    "ShiftsAllTokensFirst": ({"has_modules": True}, set()),
    "TrainsOneInVain": ({"has_modules": True}, {"modules"}),
    "EvaluatesOtherwise": ({}, {"evaluated"}),
    "RoutesNothing": ({}, {"evaluated", "tokens", "selector"}),
    "NamesOtherTokens": ({}, {"tokens"}),
    "MovesThoseThatBypass": ({}, {"places"}),
    "ComesBackToTheNext": ({}, {"places"}),
    "SendsGradientsElsewhere": ({}, {"places"}),
    "IgnoresTheSelector": ({}, {"selector"}),
    "Tread": ({"chooses_tokens": True}, {"selector"}),
    "TrainsByAnOptionOfEvaluation": ({"evaluation_options": {"detach": True}}, {"evaluation_options"}),
    "ReturnsATensor": ({}, {"step"}),
    "ForgetsToStep": ({}, {"step"}),
    "DrawsNoWeights": ({"has_modules": True}, {"step"}),
    "NotThere": ({}, {"step"}),
    "DrawsFromTorch": ({}, {"draws", "state"}),
    "KeepsAState": ({}, {"state"}),
    "HasAPathUnsaid": ({}, {"shallow_path"}),
}


WAYS_OUT = {
    "ReturnsATensor": "expected a tread_bench.Prediction with an output of shape (6, 1, 8, 8); saw Tensor",
    "ForgetsToStep": "raised NotImplementedError: ForgetsToStep has no train_forward: write it",
    "DrawsNoWeights": "has no attribute 'reset_parameters'",
    "NotThere": "builder 'tests.model.methods.broken_methods:NotThere' raised AttributeError",
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name, monkeypatch):
    changes, expected = BROKEN[name]
    broken = replace(TREAD, builder=f"tests.model.methods.broken_methods:{name}", **changes)
    monkeypatch.setitem(registry.methods(), "tread", broken)
    violations = check_method(broken)
    assert sorted(violation.check for violation in violations) == sorted(expected), "a fault is one message of a check"
    assert WAYS_OUT.get(name, "") in "".join(violation.message for violation in violations)


def test_every_check_is_shown_to_find_something():
    found = {check for _, expected in BROKEN.values() for check in expected}
    assert found == {check.__name__.removeprefix("check_") for check in METHOD_CHECKS}


def test_a_cell_that_the_method_itself_refuses_is_an_error():
    with pytest.raises(ValueError, match="write one route 0:-1@RATE"):
        check_method(methods.find("mask"))


class OtherOptions(MethodOptions):
    """As they must be."""

    name: Literal["other"] = "other"


class OtherName(MethodOptions):
    """Without a name of its own."""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": dict}, "its options must be a subclass of tread_bench.MethodOptions"),
        ({"options": OtherName}, "its options must have the field name: Literal['other'] = 'other'"),
    ],
)
def test_a_method_that_cannot_be_used_is_left_out_with_its_reason(changes, message, monkeypatch, caplog):
    other = replace(TREAD, **{"name": "other", "options": OtherOptions, **changes})
    announce(monkeypatch, (other, "two"))
    assert plugins.announced(registry.methods) == {}
    assert f"method plug-in other = x:X of two cannot be used: {message}" in caplog.text
