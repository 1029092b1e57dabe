"""The pictures are the same every time, carry the figures of the frame, and survive strange names."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Drawing
from synthetic_records import (
    BLOCKS,
    DRAWN,
    FAMILIES,
    HOSTILE,
    architectures,
    evaluation,
    of_family,
    pictures_of,
    record,
    study,
)

from tread_bench.core.numbers.statistics import mean_interval
from tread_bench.reports.differences import ITERATIONS
from tread_bench.reports.figure import Figure
from tread_bench.reports.figures.draw import MOST, draw
from tread_bench.reports.figures.pictures import fid_over_cost, labelled
from tread_bench.reports.figures.style import BETTER, COLOURS, INK, MUTED, VARIABLES, WORSE, clean, looks, theme, tone
from tread_bench.reports.frame import results_frame
from tread_bench.reports.questions.similarity import cosine_map
from tread_bench.reports.study import Study

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn(records):
    return pictures_of(records)


@pytest.fixture(scope="module")
def of_families():
    return pictures_of(architectures())


def minus(text):
    return text.replace("-", "−")


# One function draws from a frame.


def lines(**columns):
    return pd.DataFrame(columns)


def figure(frame, **about):
    given = {"name": "f", "title": "F", "caption": "What it is.", "x": "x", "y": "y", "hue": "row"}
    return Figure(lines=frame, **given | about)


def test_the_numbers_are_means_and_t_intervals_over_lines_that_share_all_else():
    values = {("a", 1.0): [1.0, 2.0, 3.0], ("a", 2.0): [4.0], ("b", 1.0): [7.0, 9.0]}
    frame = pd.DataFrame([(row, x, y) for (row, x), found in values.items() for y in found], columns=["row", "x", "y"])
    with theme():
        picture = draw(figure(frame))
    assert [(line["row"], float(line["x"])) for line in picture.numbers] == list(values)
    for line, found in zip(picture.numbers, values.values(), strict=True):
        expected = mean_interval(found)
        assert float(line["y"]) == pytest.approx(expected.mean) and line["seeds"] == str(len(found))
        if expected.bounds:
            assert line["95 % interval"] == minus(f"{expected.low:.3f} to {expected.high:.3f}")
        else:
            assert line["95 % interval"] == "one seed, no interval"
    assert "a: 4.000" in picture.description and "b: 8.000" in picture.description


def test_a_column_of_names_makes_a_forest_and_given_bounds_are_taken():
    frame = lines(row=["a", "b", "c"], name=["a", "b", "c"], x=[-2.0, 2.0, 0.1], low=[-3.0, 1.0, -1], high=[-1.0, 3, 1])
    with theme():
        picture = draw(figure(frame.assign(y=frame.name), low="low", high="high", still=0.0))
    assert [line["x"] for line in picture.numbers] == ["−2.000", "+2.000", "+0.100"]
    assert {VARIABLES[colour] in picture.inline for colour in (BETTER, WORSE, MUTED)} == {True}
    assert draw(figure(frame[:0].assign(y=[]))) is None


@pytest.mark.parametrize(
    ("bounds", "colour"),
    [((-3, -1), BETTER), ((1, 3), WORSE), ((-1, 1), MUTED), ((None, None), MUTED), ((-1, 0), MUTED)],
)
def test_the_colour_of_a_difference_is_where_its_interval_lies(bounds, colour):
    assert tone(*bounds) == colour


def test_lines_of_one_picture_never_share_colour_and_dashes_and_all_colours_have_a_twin_on_black():
    found = looks([True] + [False] * 3 * len(COLOURS))
    assert len({(colour, dashes) for colour, _, dashes in found}) == len(found) > MOST
    assert all(a[0] != b[0] and a[1] != b[1] for a, b in pairwise(found)) and found[0][0] == INK
    assert all(VARIABLES[colour].startswith("var(--line-") for colour in COLOURS)
    for colour in COLOURS:
        brightness = np.dot(np.array(to_rgb(colour)) ** 2.2, (0.2126, 0.7152, 0.0722))
        assert 1.05 / (brightness + 0.05) >= 3  # the contrast on white


def test_names_stand_in_the_order_in_which_lines_end_and_cover_no_line(records):
    frame = results_frame(records)
    with theme():
        made = draw(fid_over_cost(labelled(Study(records).rows, frame)))
    texts = [text.text for text in ElementTree.fromstring(made.svg).iter(f"{SVG}text")]
    last = frame[frame.iteration == 1200].groupby("row").fid.mean().sort_values(ascending=False)
    named = [text for text in texts if text in set(last.index)]
    assert named == list(last.index)
    assert "annotation" not in made.svg.decode()  # no line leads from a name to a curve


def test_of_more_rows_than_a_picture_can_hold_those_of_lowest_figures_are_drawn_and_the_numbers_have_all():
    names = [f"row {i}" for i in range(MOST + 4)]
    frame = lines(row=names, x=[1.0] * len(names), y=[float(i) for i in range(len(names))])
    with theme():
        picture = draw(figure(frame))
    assert f"Drawn: {MOST} of {MOST + 4}" in picture.caption and len(picture.numbers) == MOST + 4
    assert b"row 0<" in picture.svg and f"row {MOST + 1}<".encode() not in picture.svg


def test_inline_pictures_are_named_share_no_ids_and_follow_the_theme(drawn):
    seen = set()
    for picture in drawn.values():
        root = ElementTree.fromstring(str(picture.inline))
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert len(ids) == len(set(ids)) and not seen & set(ids)
        seen |= set(ids)
        assert root.get("role") == "img" and set(root.get("aria-labelledby").split()) <= set(ids)
        used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", str(picture.inline)))
        assert used <= set(ids)
        assert "var(--ink)" in picture.inline
        assert not any(colour in picture.inline for colour in VARIABLES)
        assert "http://purl" not in picture.inline


def test_strange_names_are_drawn():
    names = [HOSTILE, "_hidden", "名前\t", "x" * 300]
    records = [record(name, f"{i}:8@0.5", 0, 20.0 + i, reference="") for i, name in enumerate(names)]
    for picture in pictures_of(records).values():
        assert ElementTree.fromstring(picture.svg) is not None and b"<script" not in picture.svg
    assert clean("_a").endswith("_a") and not clean("_a").startswith("_") and len(clean("x" * 300)) == 40


def test_what_cannot_be_drawn_is_left_out():
    nothing = {"timing": None, "similarity": None, "gradient_norms": None, "evaluations": [evaluation(1200, None)]}
    assert pictures_of([record("2:8", "2:8@0.5", 0, None, **nothing)]) == {}


# The pictures of a run of routes.


def test_every_picture_is_drawn(drawn, of_families):
    assert tuple(drawn) == DRAWN and {*of_families} < {*DRAWN}


def test_placement_shows_each_route_with_its_difference_and_fits_a_phone(drawn):
    picture = drawn["route_placement"]
    row = {row.name: row for row in Study(study()).rows}["2:8"]
    difference = row.difference(ITERATIONS)
    assert f"+{difference.mean:.2f} [+{difference.low:.2f}, +{difference.high:.2f}]" in picture.svg.decode()
    assert {line["row"] for line in picture.numbers} == {row.name for row in Study(study()).rows}
    width = float(re.search(r'<svg[^>]* width="([\d.]+)pt"', picture.svg.decode())[1])
    assert width <= 480


def test_cost_is_macs_of_a_step_times_batch_times_iterations(drawn):
    first = drawn["fid_cost"].numbers[0]
    assert (first["row"], first["cost in"], first["iteration"]) == ("dense", "training cost in TMACs", "400")
    assert float(first["cost"]) == pytest.approx(30e6 * 64 * 400 / 1e12, rel=1e-3)


def test_several_seeds_average_their_similarity(drawn):
    table = {line[0]: line for line in drawn["similarity"].table}
    assert table["2:8"][2:] == ("0.960", "0.850") and table["dense"][2:] == ("–", "0.850")


def test_cosines_that_differ_by_a_few_per_cent_have_colours_that_do_and_one_cosine_has_one_colour():
    def colours(*cosines):
        """Lightness (CIE L*, roughly: luma) of each, in a map of these alone."""
        image = cosine_map(Drawing().subplots(), np.array([cosines]))
        return [colour[:3] @ (0.2126, 0.7152, 0.0722) for colour in image.to_rgba(image.get_array())[0]]

    likeness = colours(0.5, 0.9, 0.95, 0.98, 0.99, 0.995)
    assert likeness == sorted(likeness) and min(np.diff(likeness)) > 0.05
    assert colours(-1.0, 0.95)[1] == colours(0.95, 1.0)[0]
    assert colours(-1.0, 0.0) == pytest.approx([colours(0.0)[0]] * 2) and colours(1.0) == colours(0.9999)


def test_gains_are_each_familys_own_difference(of_families):
    rows = {row.name: row for row in Study(architectures()).rows}
    table = {line["row"]: line for line in of_families["gain"].numbers}
    assert len(table) == len(FAMILIES) and not any("dense" in label for label in table)
    for label, line in table.items():
        routed, dense = rows[label], rows[f"dense backbone={rows[label].architecture}"]
        expected = [r.last.fid - d.last.fid for r, d in zip(routed.records, dense.records, strict=True)]
        assert line["ΔFID"] == minus(f"{np.mean(expected):+.3f}") and line["reference"] == dense.name


def test_one_route_per_architecture_needs_no_placement_and_several_do(of_families):
    assert "route_placement" not in of_families and "speedup" not in of_families
    early = {"routes": "0:8@0.5", "row": "early"}
    other = [of_family("DiT", seed, "random", 2.0).model_copy(update=early) for seed in range(3)]
    labels = [line[0] for line in pictures_of(architectures() + other)["route_placement"].table]
    assert {"early", "tread-random backbone=DiT"} <= set(labels) and len(labels) == 2 * len(FAMILIES) + 1


def test_gradients_show_both_losses_of_every_block(drawn):
    found = [r.gradient_norms for r in study() if r.row == "2:8"]
    of_row = [line for line in drawn["gradients"].numbers if line["row"] == "2:8"]
    means = {(line["loss"], int(line["block"])): line["gradient norm"] for line in of_row}
    assert len(means) == 2 * BLOCKS
    assert means["training loss", 0] == f"{np.mean([g.training[0] for g in found]):.4f}"
    assert means["dense loss", 0] == f"{np.mean([g.dense[0] for g in found]):.4f}"
    on_route = {int(line["block"]): line["on a route"] for line in of_row}
    assert [on_route[block] for block in (1, 2, 8, 9)] == ["–", "yes", "yes", "–"]


def test_a_speedup_stands_beside_its_ideal(drawn):
    lines = {line["row"]: line for line in drawn["speedup"].numbers}
    assert float(lines["2:8"]["ideal"]) == pytest.approx(1.39)
    assert "seeds" not in lines["2:8"]  # steps are timed once for all seeds
