"""The pictures are the same every time, carry the figures, and survive strange names."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from synthetic_records import HOSTILE, evaluation, record, study

from reports.figures import NAMES, pictures
from reports.figures.cost import draw, points_of
from reports.figures.style import COLOURS, MARKERS, clean, looks, theme
from reports.published import placement_difference
from reports.tables import comparison


@pytest.fixture(scope="module")
def drawn(records):
    return {picture.name: picture for picture in pictures(comparison(records))}


def test_every_picture_is_drawn(drawn):
    assert tuple(drawn) == NAMES


def test_placement_shows_each_route_with_its_difference_and_the_published_one(drawn):
    text = drawn["route_placement"].svg.decode()
    row = {r.name: r for r in comparison(study())}["2:8"]
    difference = row.difference("fid")
    assert f"+{difference.mean:.2f} [+{difference.low:.2f}, +{difference.high:.2f}]" in text
    assert "−21.87" in text and placement_difference(row) == -21.87
    assert "another protocol" in drawn["route_placement"].caption


def test_published_figures_stand_only_beside_the_same_route_in_as_many_blocks():
    def published(routes, **changes):
        return placement_difference(comparison([record("x", routes, 0, 20.0, **changes)])[0])

    assert published("0:10@0.5") == 7.47
    assert published("2:8@0.75") is None and published("2:9@0.5") is None
    assert published("2:8@0.5", num_blocks=24) is None


def test_cost_is_macs_of_a_step_times_batch_times_iterations(drawn):
    assert drawn["fid_cost"].headers[2] == "training TMACs"
    assert drawn["fid_cost"].table[0][:3] == ("dense", "400", f"{30e6 * 64 * 400 / 1e12:.2f}")


def test_both_panels_of_the_cost_draw_the_means_and_intervals_of_the_table(records):
    rows = comparison(records)
    points = [point for index, row in enumerate(rows) for point in points_of(index, row)]
    with theme():
        panels = draw(rows, points).axes
    for panel in panels:
        means = [y for line in panel.lines[::2] for y in line.get_ydata()]  # each second one carries the bars
        drawn = [segment[:, 1] for bars in panel.collections for segment in bars.get_segments()]
        assert means == pytest.approx([point.fid.mean for point in points])
        assert np.ravel(drawn) == pytest.approx(np.ravel([point.fid.bounds for point in points]))


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
        assert "var(--ink)" in picture.inline and "#1b1f24" not in picture.inline
        assert "http://purl" not in picture.inline


def test_rows_differ_in_shape_as_well_as_in_colour():
    found = looks([True] + [False] * len(COLOURS) * len(MARKERS))
    assert len(set(found)) == len(found)
    assert all(a[0] != b[0] and a[1] != b[1] for a, b in pairwise(found))


def test_strange_names_are_drawn():
    names = [HOSTILE, "_hidden", "$\\foo$", "名前", "tab\tnew\nline", "x" * 300]
    records = [record(name, f"{i}:8@0.5", 0, 20.0 + i, reference="", similarity=None, gradient_norms=None) for i, name in enumerate(names)]
    for picture in pictures(comparison(records)):
        ElementTree.fromstring(picture.svg)
        assert b"<script" not in picture.svg
    assert clean("_a").endswith("_a") and not clean("_a").startswith("_") and len(clean("x" * 300)) == 34


def test_what_cannot_be_drawn_is_left_out():
    bare = record("2:8", "2:8@0.5", 0, None, timing=None, similarity=None, evaluations=[evaluation(1200, None)])
    assert pictures(comparison([bare])) == []
    assert pictures([]) == []


def test_one_seed_and_no_dense_are_drawn_without_intervals():
    records = [r for r in study(seeds=1) if r.row != "dense"]
    placement = pictures(comparison(records))[0]
    assert placement.headers == ("row", "FID", "95 % interval")
    assert all(line[2] == "one seed, no interval" for line in placement.table)


def test_several_seeds_average_their_similarity(drawn):
    table = {line[0]: line for line in drawn["similarity"].table}
    assert table["2:8@0.5"][2:] == ("0.960", "0.850") and table["dense"][2:] == ("–", "0.850")
