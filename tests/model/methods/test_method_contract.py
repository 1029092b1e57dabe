"""Every announced method keeps the contract, and each check finds what it is there for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.model.methods.subjects import BACKBONES, OPTIONS, ROUTES
from tread_bench.contract import METHOD_CHECKS, check_method
from tread_bench.core import methods as registry
from tread_bench.core import plugins
from tread_bench.core.methods import MethodOptions, Tokens, find_method, methods

TREAD = find_method("tread")
SLOW = ("U-ViT", "DiS", "ZigMa", "DRWKV", "LightningDiT")
ON = ["DiT", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


@pytest.mark.parametrize("backbone", ON)
@pytest.mark.parametrize("name", methods())
def test_every_announced_method_keeps_the_contract(name, backbone):
    options, routes = OPTIONS.get(name), ROUTES.get(name, "1:3@0.5")
    assert check_method(methods()[name], routes=routes, options=options, backbone=BACKBONES[backbone]) == []


BROKEN = {
    "OwnsParametersUnsaid": ({}, {"modules", "evaluated", "cost"}),
    "TrainsOneInVain": ({"has_modules": True}, {"modules"}),
    "EvaluatesOtherwise": ({}, {"evaluated"}),
    "RoutesNothing": ({}, {"evaluated", "cost"}),
    "NamesOtherTokens": ({}, {"tokens"}),
    "DrawsFromTorch": ({}, {"draws", "state"}),
    "KeepsAState": ({}, {"state"}),
    "HasAPathUnsaid": ({}, {"shallow_path"}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name, monkeypatch):
    changes, expected = BROKEN[name]
    broken = replace(TREAD, builder=f"tests.model.methods.broken_methods:{name}", **changes)
    monkeypatch.setattr(registry, "methods", lambda: {"tread": broken})
    assert {violation.check for violation in check_method(broken)} == expected


def test_every_check_is_shown_to_find_something():
    found = {check for _, expected in BROKEN.values() for check in expected}
    assert found == {check.__name__.removeprefix("check_") for check in METHOD_CHECKS}


def test_a_cell_that_the_method_itself_refuses_is_an_error():
    with pytest.raises(ValueError, match="write one route 0:-1@RATE"):
        check_method(find_method("mask"))


class OtherName(MethodOptions):
    """Without a name of its own."""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": dict}, "its options must be a subclass of tread_bench.MethodOptions"),
        ({"options": OtherName}, "its options must have the field name: Literal['other'] = 'other'"),
        ({"tokens": "bypass"}, "its options must have the field"),
    ],
)
def test_a_method_that_cannot_be_used_is_left_out_with_its_reason(changes, message, monkeypatch, caplog):
    other = replace(TREAD, name="other", **changes)
    point = SimpleNamespace(
        name="other", value="x:X", load=lambda: other, dist=SimpleNamespace(name="two", version="1")
    )
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    assert plugins.announced(registry.METHODS) == {}
    assert f"method plug-in other = x:X of two cannot be used: {message}" in caplog.text


def test_what_has_no_default_must_be_said():
    with pytest.raises(TypeError, match="missing 7 required keyword-only arguments: 'options', 'builder', 'tokens'"):
        registry.MethodFamily(name="mine")
    assert Tokens("bypass") is TREAD.tokens
