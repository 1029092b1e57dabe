"""Families are found by name, alias or published name, whatever the case, and announced once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pydantic import Field

from tests.announced import Distribution, announce, point
from tread_bench.core.describe import families as registry
from tread_bench.core.describe import plugins
from tread_bench.core.describe.families import BackboneSpec, Family, find_family, make_spec
from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.describe.selectors import TokenOrder
from tread_bench.core.errors import printable


class ToySpec(BackboneSpec):
    depth: int = Field(4, ge=1)


def only_half(spec, routes, selector):
    if any(route.rate != 0.5 for route in routes):
        raise ValueError("Toy routes at rate 0.5 alone")


TOY = Family(
    name="Toy",
    aliases=("Plaything",),
    spec=ToySpec,
    published={"Toy-S/2": {"depth": 6, "patch": 2}},
    token_order=TokenOrder.SEQUENCE,
    num_blocks=lambda spec: spec.depth + 1,
    builder="nowhere:Toy",
    check_routes=only_half,
)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(registry, "families", lambda: {"Toy": TOY})


def test_a_family_is_found_by_name_alias_and_published_name_which_brings_its_sizes(toy):
    assert find_family("Toy") == find_family("toy") == find_family("PLAYTHING") == (TOY, {})
    family, spec = make_spec("toy-s/2", image_size=8, channels=1)
    assert (family, spec.depth, spec.num_tokens) == (TOY, 6, 16)
    assert make_spec("Toy-S/2", depth=3)[1].depth == 3
    with pytest.raises(ValueError, match="Toy has no 'Toy-S/3'; published: Toy-S/2"):
        find_family("Toy-S/3")


def test_the_family_has_the_last_word_on_routes():
    spec = ToySpec()
    assert TOY.resolve(spec, parse_routes("1:-1@0.5"), "random") == parse_routes("1:4@0.5")
    assert TOY.resolve(spec, (), "random") == ()
    with pytest.raises(ValueError, match=r"0\.5 alone"):
        TOY.resolve(spec, parse_routes("1:2@0.25"), "random")


def announced(monkeypatch, *found):
    announce(monkeypatch, *found)
    return plugins.announced(registry.families)


def clone(**changes):
    fields = {name: getattr(TOY, name) for name in TOY.__dataclass_fields__}
    return Family(**{**fields, "source": "", **changes})


@pytest.mark.parametrize(("first", "kept", "owner"), [("one", "Other", "two"), ("tread-bench", "Toy", "tread-bench")])
def test_a_name_that_two_announce_is_ours_or_that_of_the_first(first, kept, owner, monkeypatch, caplog):
    other, third = clone(name="Other", aliases=("TOY",), published={}), clone(name="Third", aliases=(), published={})
    assert set(announced(monkeypatch, (clone(), first), (other, "two"), (third, "three"))) == {kept, "Third"}
    assert f"backbone 'toy' is announced by {owner} 1, too; uninstall one of the two or rename it" in caplog.text


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (lambda: SimpleNamespace(name="Wrong"), "SimpleNamespace is not a tread_bench.Family"),
        (lambda: clone(name="Wrong", spec=dict), "its spec must be a subclass"),
    ],
)
def test_what_is_not_a_usable_family_is_left_out_with_its_distribution(load, message, monkeypatch, caplog):
    points = [point("toy", clone, Distribution("one")), point("wrong", load, Distribution("two"))]
    monkeypatch.setattr(plugins, "points_of", lambda group: points)
    assert set(plugins.announced(registry.families)) == {"Toy"}
    assert " of two cannot be used: " in caplog.text and message in caplog.text
    lines = [line for told in caplog.messages for line in told.splitlines()]
    assert lines == [printable(line) for line in lines]
