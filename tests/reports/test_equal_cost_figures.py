"""What pictures show of rows at equal cost: the same as the verdict, beside equal iterations."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_rgb
from synthetic_records import study, timing
from synthetic_studies import drawn, equal_cost, methods

from tread_bench.core.numbers.statistics import LEVEL
from tread_bench.reports.claims.equal_cost import equal_costs
from tread_bench.reports.figures.bases import bases
from tread_bench.reports.figures.cost import draw, points_of
from tread_bench.reports.figures.differences import methods as methods_picture
from tread_bench.reports.figures.style import MUTED, theme
from tread_bench.reports.rows.comparison import comparison
from tread_bench.reports.text.numbers import words


@pytest.fixture(scope="module")
def rows():
    return comparison(equal_cost())


@pytest.fixture(scope="module")
def costs(rows):
    return equal_costs(rows)


def named(rows):
    return {row.name: row for row in rows}


def test_pictures_of_differences_come_at_equal_cost_and_at_equal_iterations():
    made = drawn("equal_cost")
    for name in ("route_placement", "placement_map"):
        pair = made[name], made[f"{name}_iterations"]
        assert [picture.basis for picture in pair] == ["equal training cost", "equal iterations"]
        assert pair[0].title == pair[1].title and pair[0].table != pair[1].table
    assert "methods" not in made  # controls beside routes do not make it a comparison of methods


def test_each_basis_has_the_differences_and_the_tests_of_the_verdict(rows, costs):
    at_cost, at_iterations = bases(rows, costs)
    for one in costs:
        assert at_cost.shown(one.row) == one.at_macs
        assert at_cost.difference(one.row).is_significant is (one.at_macs_p <= LEVEL)
        assert at_iterations.shown(one.row) == one.row.difference("fid")
    made = drawn("equal_cost")
    table = {line[0]: line for line in made["route_placement"].table}
    assert all(words(one.at_macs, 2).startswith(table[one.row.label][3]) for one in costs)


def test_the_fid_beside_a_difference_is_that_of_the_same_cost(rows, costs):
    """Of rows that were trained to one cost, so that their FIDs differ by the difference."""
    dense = named(rows)["dense"]
    for name, basis in zip(("route_placement", "route_placement_iterations"), bases(rows, costs), strict=True):
        table = {line[0]: line for line in drawn("equal_cost")[name].table}
        assert table[dense.label][1] == f"{dense.fid.mean:.2f}"
        for one in costs:
            _, fid, interval, difference, *_ = table[one.row.label]
            own = one.fids_at_macs if basis.words == "equal training cost" else one.row.scores["fid"]
            assert float(fid) == pytest.approx(sum(own.values()) / 5, abs=0.005)
            assert float(interval.split(" to ")[0]) < float(fid) < float(interval.split(" to ")[1])
            assert float(difference.replace("−", "-")) == pytest.approx(float(fid) - dense.fid.mean, abs=0.011)


def test_one_row_can_be_blue_at_equal_cost_and_orange_at_equal_iterations(rows, costs):
    at_cost, at_iterations = bases(rows, costs)
    row = named(rows)["2:8"]
    red, _, blue = to_rgb(at_cost.tone(row, at_cost.scale(rows)))
    assert blue > red
    red, _, blue = to_rgb(at_iterations.tone(row, at_iterations.scale(rows)))
    assert red > blue


def test_outlined_are_the_rows_that_may_be_the_best_at_that_equality(rows, costs):
    at_cost, at_iterations = bases(rows, costs)
    by_name = named(rows)
    assert at_cost.is_best(by_name["2:8"]) and not at_cost.is_best(by_name["dense"])
    assert at_iterations.is_best(by_name["dense"]) and not at_iterations.is_best(by_name["2:8"])
    for name, basis in (("placement_map", at_cost), ("placement_map_iterations", at_iterations)):
        table = {line[0]: line[-1] == "yes" for line in drawn("equal_cost")[name].table}
        assert table == {row.label: basis.is_best(row) for row in rows if row.label in table}


def test_a_caption_speaks_of_outlines_only_where_a_bar_has_one():
    made = drawn("equal_cost")
    assert "Outlined" in made["route_placement"].caption
    assert "Outlined" not in made["route_placement_iterations"].caption  # dense alone may be the best


def test_the_map_has_a_cell_for_each_route_at_its_first_and_last_block():
    table = drawn("equal_cost")["placement_map"].table
    places = {("2", "8"), ("1", "8"), ("4", "8"), ("0", "8"), ("2", "10"), ("0", "10")}
    assert {line[1:3] for line in table} == places and {line[3] for line in table} == {"0.5"}


def test_the_cost_of_the_reference_is_a_line_and_what_is_compared_on_it_is_ringed(rows, costs):
    points = [point for index in range(len(rows)) for point in points_of(index, rows)]
    with theme():
        seconds, macs = draw(rows, points, costs).axes
    dense = [point for point in points if rows[point.row].name == "dense"][-1]
    for axes, cost, label in ((macs, dense.macs / 1e12, "cost of dense"), (seconds, dense.seconds, "time of dense")):
        assert label in [text.get_text() for text in axes.texts]
        dashed = [line for line in axes.lines if line.get_linestyle() == "--" and line.get_color() == MUTED]
        assert [line.get_xdata()[0] for line in dashed] == [pytest.approx(cost)]
        bridges = [
            line.get_ydata() for line in axes.lines
            if len(line.get_ydata()) == 2 and line.get_color() == MUTED and line not in dashed
        ]  # fmt: skip
        differences = [one.at_macs if axes is macs else one.at_time for one in costs]
        found = [own - other for own, other in bridges]
        assert found == pytest.approx([difference.mean for difference in differences if difference])
        assert len(found) > 5 and all(other == pytest.approx(dense.fid.mean) for _, other in bridges)
    rings = [line.get_ydata()[0] for line in macs.lines if line.get_markersize() == 12]
    ends = [record.last.fid for record in named(rows)["2:8"].records]
    assert any(ring == pytest.approx(sum(ends) / 5) for ring in rings)


@pytest.mark.parametrize("records", [study, methods], ids=["nothing", "one row of nine"])
def test_where_little_was_compared_at_equal_cost_there_is_one_basis(records):
    rows = comparison(records())
    (only,) = bases(rows, equal_costs(rows))
    assert only.words == "equal iterations" and only.suffix == ""


def test_a_control_of_another_shape_has_no_speed_up_beside_those_of_methods():
    """Its step is timed in turn with a dense one of its own shape: as fast as itself."""
    wanted = {"dense": {}, "2:8": {}, "layer-skip": {}, "fewer-blocks": {"timing": timing(1.0, 7)}}
    rows = comparison(one.model_copy(update=wanted[one.row]) for one in equal_cost(2, 4) if one.row in wanted)
    picture = methods_picture(rows, bases(rows, equal_costs(rows)))[0]
    speeds = {line[0]: line[-2:] for line in picture.table}
    assert speeds["fewer-blocks"] == ("–", "–") and speeds["layer-skip"][0] != "–"
    assert "fewer-blocks has another shape" in picture.caption
