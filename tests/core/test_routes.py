"""Laws of routes: what is written is what is read, TREAD's three rules, and what each block processes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tread_bench.core.describe.routes import (
    ResolvedRoute,
    Route,
    as_routes,
    format_routes,
    parse_routes,
    resolve_routes,
    tokens_per_block,
)

fractions = st.fractions(min_value=0, max_value=1, max_denominator=1000)
rates = st.floats(min_value=0, max_value=1, exclude_max=True)
routes = st.one_of(
    st.builds(lambda a, b, r: Route(min(a, b), max(a, b), r), st.integers(0, 99), st.integers(0, 99), rates),
    st.builds(Route, st.integers(-99, -1), st.integers(-99, -1), rates),
    st.builds(Route, fractions, fractions, rates),
)


@settings(database=None, deadline=None)
@given(st.lists(routes, max_size=3))
def test_reading_what_was_written_gives_the_same_routes(written):
    read = parse_routes(format_routes(written))
    assert read == tuple(written)
    assert [type(route.end) for route in read] == [type(route.end) for route in written]


def test_a_rate_keeps_all_its_digits():
    assert str(Route(2, 8, 1 / 3)) == "2:8@0.3333333333333333"
    assert str(Route(2, 8, 1e-7)) == "2:8@0.0000001"
    assert str(Route(2, 8, 0)) == "2:8@0"
    assert Route(1 / 6, 2 / 3, 0.5) == Route(Fraction(1, 6), Fraction(2, 3), 0.5)


@pytest.mark.parametrize(
    ("written", "num_blocks", "resolved"),
    [
        ("2:8@0.5", 12, "2:8@0.5"),
        ("2:-4@0.5", 28, "2:24@0.5"),  # TREAD's absolute rule, i = 2, j = B - 4
        ("2:-4@0.5", 12, "2:8@0.5"),
        ("-3:-1@0.5", 12, "9:11@0.5"),
        ("1/6:2/3@0.5", 28, "5:19@0.5"),  # TREAD's relative rule
        ("1/6:2/3@0.5", 12, "2:8@0.5"),
        ("0.25:0.5@0.75", 12, "3:6@0.75"),
        ("6:8@0.5,1:3@0.25", 12, "1:3@0.25,6:8@0.5"),
    ],
)
def test_routes_resolve_to_block_numbers(written, num_blocks, resolved):
    assert format_routes(resolve_routes(parse_routes(written), num_blocks)) == resolved


@given(st.integers(1, 5000), rates)
@settings(database=None, deadline=None)
def test_kept_and_bypassing_tokens_are_all_tokens(num_tokens, rate):
    kept = Route(0, 0, rate).kept(num_tokens)
    assert num_tokens - kept == int(num_tokens * rate)
    assert 1 <= kept <= num_tokens


def test_a_resolved_route_knows_its_blocks_and_equals_the_route_of_its_numbers():
    (resolved,) = resolve_routes("2:-4@0.5", 12)
    assert type(resolved) is type(resolved.at_share(0.5)) is type(resolved.resolve(12)) is ResolvedRoute
    assert list(resolved.blocks) == [2, 3, 4, 5, 6, 7, 8] and resolved.at_share(0.5).rate == 0.25
    assert resolved == Route(2, 8, 0.5) != Route(2, -4, 0.5) and len({resolved, Route(2, 8, 0.5)}) == 1
    assert as_routes(resolved) == as_routes([resolved]) == (resolved,) and str(resolved) == "2:8@0.5"


def test_tokens_per_block():
    assert tokens_per_block(resolve_routes("2:8@0.5", 12), 12, 16) == [16, 16, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16]
    assert tokens_per_block(resolve_routes("0:1@0.5,-1:-1@0.25", 4), 4, 16, num_prefix=2) == [10, 10, 18, 14]
    assert tokens_per_block([], 3, 16, num_prefix=1) == [17, 17, 17]


BOTH = (Route(1, 3, 0.25), Route(6, -4, 0.5))


@pytest.mark.parametrize("given", [BOTH, list(BOTH), ["1:3@0.25", "6:-4@0.5"], [BOTH[0], "6:-4@0.5"]])
def test_a_route_may_be_text_wherever_one_is_taken(given):
    """Each of several may be a `Route` or text; one may stand alone, and one text may hold several."""
    assert as_routes(given) == as_routes("1:3@0.25,6:-4@0.5") == BOTH
    assert as_routes("1:3@0.25") == as_routes(BOTH[0]) == BOTH[:1]
    assert as_routes(()) == as_routes("") == ()
    assert resolve_routes(given, 12) == (Route(1, 3, 0.25), Route(6, 8, 0.5))
    assert format_routes(given) == "1:3@0.25,6:-4@0.5"
    assert tokens_per_block(resolve_routes(given, 12), 12, 16) == [16, 12, 12, 12, 16, 16, 8, 8, 8, 16, 16, 16]


@pytest.mark.parametrize("given", [5, {"2:8@0.5": 1}, [5], [["2:8@0.5"]], ["2:8"]])
def test_what_is_neither_a_route_nor_its_text_is_refused(given):
    with pytest.raises(ValueError, match="route"):
        as_routes(given)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("2:8", "is not a route"),
        ("2-8@0.5", "write START:END@RATE"),
        ("8:2@0.5", "swap the two"),
        ("2:8@1", r"\[0, 1\)"),
        ("1.5:8@0.5", r"\[0, 1\]"),
        ("1/0:8@0.5", "divides by zero"),
        ("2:8@nan", "is not a route"),
        ("2:12@0.5", "12 blocks"),
        ("-13:4@0.5", "12 blocks"),
        ("1/2:1/1@0.5", "12 blocks"),
        ("-2:3@0.5", "of 12 blocks it starts at 10, after its end 3"),
        ("2:6@0.5,6:8@0.5", "share block 6"),
        ("2:8@0.5,3:4@0.5", "share block 3"),
    ],
)
def test_what_is_no_route_of_twelve_blocks_is_refused(written, message):
    with pytest.raises(ValueError, match=message):
        resolve_routes(written, 12)


@pytest.mark.parametrize("rate", [True, "0.5", float("nan"), -0.1, 1.0])
def test_a_rate_is_a_share(rate):
    with pytest.raises(ValueError, match="rate"):
        Route(2, 8, rate)
