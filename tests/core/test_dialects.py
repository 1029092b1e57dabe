"""Routes as trainers write them, golden: ends and ratios."""

from __future__ import annotations

import json

import pytest

from tread_bench.core.describe.dialects import DIALECTS, moved, write_routes
from tread_bench.core.describe.routes import Route, resolve_routes

WRITTEN = {  # of 2:8@0.5: which end each trainer means was read in its code
    "suite": '{method: tread, routes: "2:8@0.5"}',
    "routed-network": 'routed(x, t, y, routes="2:8@0.5")',
    "tread": '{"routes": [{"selection_ratio": 0.5, "start_layer_idx": 2, "end_layer_idx": 8}]}',
    "simpletuner": '{"routes": [{"selection_ratio": 0.5, "start_layer_idx": 2, "end_layer_idx": 8}]}',
    "prx": '{"routing_probability": 0.5, "route_start": 2, "route_end": 8}',
    "onetrainer": '{"tread_enabled": true, "tread_selection_ratio": 0.5, "tread_start_layer": 2, "tread_end_layer": 8}',
    "animalorastudio": '{"tread_ratio": 0.5, "tread_start_layer": 2, "tread_end_layer": 9}',
    "fizgig": "tread=0.5@2-9",
}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_route_is_written_as_the_trainer_reads_it(name):
    assert write_routes(name, resolve_routes("2:8@0.5", 12)) == WRITTEN[name]


def test_several_routes_fit_only_where_there_is_a_list_and_one_block_not_where_the_first_must_come_before_the_last():
    two, one_block = resolve_routes("1:2@0.5,4:8@0.25", 12), resolve_routes("3:3@0.5", 12)
    written = json.loads(write_routes("simpletuner", two))["routes"]
    assert [route["end_layer_idx"] for route in written] == [2, 8]
    assert json.loads(write_routes("onetrainer", one_block))["tread_end_layer"] == 3
    assert json.loads(write_routes("prx", resolve_routes("3:4@0.5", 12)))["route_end"] == 4
    for name, routes, told in (
        ("prx", two, "prx takes one route of 2 blocks or more, and 1:2@0.5,4:8@0.25 was given"),
        ("prx", one_block, "prx takes one route of 2 blocks or more, and 3:3@0.5 was given"),
        ("fizgig", two, "fizgig takes one route, and 1:2@0.5,4:8@0.25 was given"),
        ("tread", (), "tread takes a route, and none was given"),
        ("simpletune", two, "unknown dialect 'simpletune'; did you mean 'simpletuner'"),
    ):
        with pytest.raises(ValueError, match=told):
            write_routes(name, routes)


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
