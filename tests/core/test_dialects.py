"""Routes as trainers write them, golden: ends, ratios, and both ways."""

from __future__ import annotations

import json

import pytest

from tread_bench.core.describe.dialects import DIALECTS, moved, read_routes, write_routes
from tread_bench.core.describe.routes import Route, resolve_routes

WRITTEN = {  # of 2:8@0.5: which end each trainer means was read in its code
    "tread": '{"routes": [{"selection_ratio": 0.5, "start_layer_idx": 2, "end_layer_idx": 8}]}',
    "simpletuner": '{"routes": [{"selection_ratio": 0.5, "start_layer_idx": 2, "end_layer_idx": 8}]}',
    "prx": '{"routing_probability": 0.5, "route_start": 2, "route_end": 8}',
    "onetrainer": '{"tread_enabled": true, "tread_selection_ratio": 0.5, "tread_start_layer": 2, "tread_end_layer": 8}',
}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_route_is_written_as_the_trainer_reads_it(name):
    assert write_routes(name, resolve_routes("2:8@0.5", 12)) == WRITTEN[name]
    assert read_routes(WRITTEN[name]) == (Route(2, 8, 0.5),)


def test_what_trainers_ship_is_read():
    shipped = '{"tread_config": {"routes": [{"selection_ratio": 0.5, "start_layer_idx": 2, "end_layer_idx": -2}]}}'
    (route,) = read_routes(shipped)
    assert (route, route.resolve(57)) == (Route(2, -2, 0.5), Route(2, 55, 0.5))
    assert read_routes("2:-4@0.5,9:9@0.25") == (Route(2, -4, 0.5), Route(9, 9, 0.25))


def test_several_routes_fit_only_where_there_is_a_list():
    two = resolve_routes("1:2@0.5,4:8@0.25", 12)
    assert read_routes(write_routes("simpletuner", two)) == two
    with pytest.raises(ValueError, match=r"prx takes one route of 2 blocks or more, and 1:2@0.5,4:8@0.25 was given"):
        write_routes("prx", two)
    with pytest.raises(ValueError, match="tread takes a route, and none was given"):
        write_routes("tread", ())
    with pytest.raises(ValueError, match="unknown dialect 'simpletune'; did you mean 'simpletuner'"):
        write_routes("simpletune", two)


def test_a_route_of_one_block_is_written_and_read_but_for_prx_which_asserts_that_the_first_comes_before_the_last():
    (one_block,) = one = resolve_routes("3:3@0.5", 12)
    with pytest.raises(ValueError, match=r"prx takes one route of 2 blocks or more, and 3:3@0.5 was given"):
        write_routes("prx", one)
    assert json.loads(write_routes("prx", resolve_routes("3:4@0.5", 12)))["route_end"] == 4
    for name in ("tread", "onetrainer"):
        assert [route.resolve(12) for route in read_routes(write_routes(name, one))] == [one_block]


def test_a_deeper_network_keeps_the_distances_from_both_ends():
    assert moved(resolve_routes("2:8@0.5", 12), 12, 57) == [Route(2, 53, 0.5)]
    assert moved(resolve_routes("2:8@0.5", 12), 12, 12) == [Route(2, 8, 0.5)]
    with pytest.raises(ValueError, match=r"route 2:8@0.5 of 12 blocks has no block left in 5"):
        moved(resolve_routes("2:8@0.5", 12), 12, 5)


def test_where_text_counts_and_is_kept_the_share_of_image_tokens_is_the_requested_one():
    image, text, rate = 4096, 512, 0.5
    written = write_routes("simpletuner", resolve_routes(f"2:8@{rate}", 12), image / (image + text))
    ratio = json.loads(written)["routes"][0]["selection_ratio"]
    dropped = round(ratio * (image + text))  # of all tokens, image tokens alone
    assert dropped / image == pytest.approx(rate)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{broken", "is not JSON"),
        ('{"start": 2}', "is not a route of a trainer: write selection_ratio, start_layer_idx, end_layer_idx"),
        ("[3]", "3 is not a route of a trainer"),
        ("2-8", "is not a route: write START:END@RATE"),
        ('{"selection_ratio": 0.5, "start_layer_idx": 2, "end_layer_idx": "9"}', "end '9': must be a block number"),
    ],
)
def test_what_is_not_a_route_is_refused_with_the_rule(text, rule):
    with pytest.raises(ValueError, match=rule):
        read_routes(text)
