"""The pictures are the same every time, carry the figures, and survive strange names."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from synthetic_records import (
    BLOCKS,
    DRAWN,
    FAMILIES,
    HOSTILE,
    SELECTORS,
    architectures,
    drawn_alone,
    evaluation,
    of_family,
    record,
    selectors,
    similarity,
    study,
    timing,
)

from tread_bench.reports.claims.verdict import against_reference
from tread_bench.reports.figures.bases import bases
from tread_bench.reports.figures.cost import draw, points_of
from tread_bench.reports.figures.drawing import End, label_ends, logarithmic, tones
from tread_bench.reports.figures.panels import SHOWN, first_by_rank, panels
from tread_bench.reports.figures.pictures import pictures
from tread_bench.reports.figures.placement import route_placement
from tread_bench.reports.figures.selectors import selector_differences
from tread_bench.reports.figures.similarity import across_times, adjacent_times, cosine_map
from tread_bench.reports.figures.speed import step_parts
from tread_bench.reports.figures.style import (
    BETTER,
    COLOURS,
    DIVERGING,
    MARKERS,
    MUTED,
    WORSE,
    clean,
    looks,
    row_key,
    theme,
)
from tread_bench.reports.rows.comparison import comparison


@pytest.fixture(scope="module")
def drawn(records):
    return {picture.name: picture for picture in pictures(comparison(records))}


@pytest.fixture(scope="module")
def of_families():
    return {picture.name: picture for picture in pictures(comparison(architectures()))}


def test_every_picture_is_drawn(drawn, of_families):
    of_selectors = {picture.name for picture in pictures(comparison(selectors(("DiT",), 2)))}
    assert tuple(drawn) == DRAWN and {"routing_gain", "selectors"} == {*of_families, *of_selectors} - {*DRAWN}


def test_placement_shows_each_route_with_its_difference(drawn):
    text = drawn["route_placement"].svg.decode()
    difference = {r.name: r for r in comparison(study())}["2:8"].difference("fid")
    assert f"+{difference.mean:.2f} [+{difference.low:.2f}, +{difference.high:.2f}]" in text


def test_cost_is_macs_of_a_step_times_batch_times_iterations(drawn):
    assert drawn["fid_cost"].headers[2] == "training TMACs"
    assert drawn["fid_cost"].table[0][:3] == ("dense", "400", f"{30e6 * 64 * 400 / 1e12:.2f}")


UNADJUSTED = (2, 1, 2.5, 0, 2)  # p = 0.028: significant alone, and not beside a second row
CLEAR, STILL = (3, 3.1, 2.9, 3, 3), (1, -1, 0.5, -0.5, 0)


@pytest.mark.parametrize(("gains", "other", "is_grey"), [
    (UNADJUSTED, STILL, True), (CLEAR, STILL, False), (UNADJUSTED, CLEAR, False),  # of two, the larger p counts once
])  # fmt: skip
@pytest.mark.parametrize("sign", [1, -1])
def test_a_row_has_a_colour_only_where_the_test_of_the_verdict_finds_a_difference(gains, other, is_grey, sign):
    changes = {"dense": ("", [0] * 5), "2:8": ("2:8@0.5", gains), "0:8": ("0:8@0.5", other)}
    records = [
        record(row, routes, seed, 0.0, evaluations=[evaluation(1200, 20 + 2 * seed + sign * change)])
        for row, (routes, all_seeds) in changes.items()
        for seed, change in enumerate(all_seeds)
    ]
    rows = comparison(records)
    own = next(row for row in rows if row.name == "2:8")
    assert own.difference("fid").excludes(0)
    assert bases(rows, ())[0].way(own) == (MUTED if is_grey else BETTER if sign < 0 else WORSE)
    said = against_reference(own, rows, 2)
    assert ("not significant" in said) is is_grey and ("better" in said or "worse" in said) is not is_grey
    placement = drawn_alone(route_placement, rows)
    has_grey = f"fill: {to_hex(DIVERGING(0.5))}" in placement.svg.decode()
    assert has_grey is (is_grey or other is STILL) and tones(rows) in placement.caption


def test_a_load_while_one_row_was_timed_moves_no_row_alone():
    """Its steps and the dense ones beside them take twice as long: all times double at most, their ratios stay."""
    slow = timing(1.2, 0)
    slow = slow.model_copy(
        update={name: [2 * t for t in getattr(slow, name)] for name in ("step_times_ms", "reference_step_times_ms")}
        | {"step_time_ms": 2 * slow.step_time_ms}
    )

    def seconds(of_routed):
        records = [record("dense", "", 0, 17.0, 1.0), record("2:8", "2:8@0.5", 0, 18.0, timing=of_routed)]
        rows = comparison(records)
        return [points_of(k, rows)[-1].seconds for k in range(2)]

    quiet, loaded = seconds(timing(1.2, 0)), seconds(slow)
    assert quiet[0] / quiet[1] == pytest.approx(loaded[0] / loaded[1]) == pytest.approx(1.2, rel=0.03)


def test_both_panels_of_the_cost_draw_the_means_and_intervals_of_the_table(records):
    rows = comparison(records)
    points = [point for index in range(len(rows)) for point in points_of(index, rows)]
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


@pytest.mark.slow
def test_strange_names_are_drawn():
    names = [HOSTILE, "_hidden", "$\\foo$", "名前", "tab\tnew\nline", "x" * 300]
    records = [record(name, f"{i}:8@0.5", 0, 20.0 + i, reference="") for i, name in enumerate(names)]
    for picture in pictures(comparison(records)):
        ElementTree.fromstring(picture.svg)
        assert b"<script" not in picture.svg
    assert clean("_a").endswith("_a") and not clean("_a").startswith("_") and len(clean("x" * 300)) == 40


def test_what_cannot_be_drawn_is_left_out():
    nothing = {"timing": None, "similarity": None, "gradient_norms": None}
    bare = record("2:8", "2:8@0.5", 0, None, evaluations=[evaluation(1200, None)], **nothing)
    assert pictures(comparison([bare])) == []
    assert pictures([]) == []


def test_one_seed_and_no_dense_are_drawn_without_intervals():
    records = [r for r in study(seeds=1) if r.row != "dense"]
    placement = drawn_alone(route_placement, comparison(records))
    assert placement.headers == ("row", "FID", "FID, 95 % interval")
    assert all(line[2] == "one seed, no interval" for line in placement.table)


def test_no_fid_is_drawn_below_0_where_the_interval_of_two_seeds_is():
    spread = {"2:8": (10.0, 30.0), "0:8": (12.0, 33.0)}
    records = [record(name, f"{name}@0.5", seed, fid) for name, fids in spread.items() for seed, fid in enumerate(fids)]
    placement = drawn_alone(route_placement, comparison(records))
    assert all(line[2].startswith("up to") for line in placement.table)
    assert "−" not in placement.svg.decode()


def test_several_seeds_average_their_similarity(drawn):
    table = {line[0]: line for line in drawn["similarity"].table}
    assert table["2:8"][2:] == ("0.960", "0.850") and table["dense"][2:] == ("–", "0.850")


def test_cosines_that_differ_by_a_few_per_cent_have_colours_that_do_and_one_cosine_has_one_colour():
    def colours(*cosines):
        """Lightness (CIE L*, roughly: luma) of each, in a map of these alone."""
        image = cosine_map(Figure().subplots(), np.array([cosines]))
        return [colour[:3] @ (0.2126, 0.7152, 0.0722) for colour in image.to_rgba(image.get_array())[0]]

    likeness = colours(0.5, 0.9, 0.95, 0.98, 0.99, 0.995)
    assert likeness == sorted(likeness) and min(np.diff(likeness)) > 0.05
    assert colours(-1.0, 0.95)[1] == colours(0.95, 1.0)[0]
    assert colours(-1.0, 0.0) == pytest.approx([colours(0.0)[0]] * 2) and colours(1.0) == colours(0.9999)


def test_the_bar_of_a_heat_map_says_what_its_colours_are(drawn):
    for name in ("similarity", "across_times"):
        text = drawn[name].svg.decode()
        assert all(label in text for label in ("cosine similarity", "≤ 0<", ">0.9<", "≥ 0.999<"))
        assert "logarithm of 1 − cosine" in drawn[name].caption


def test_gains_are_each_familys_own_difference(of_families):
    rows = {row.label: row for row in comparison(architectures())}
    table = {line[0]: line for line in of_families["routing_gain"].table}
    assert len(table) == len(FAMILIES) and not any("dense" in label for label in table)
    for label, line in table.items():
        routed, dense = rows[label], rows[f"dense backbone={rows[label].architecture}"]
        expected = [r.last.fid - d.last.fid for r, d in zip(routed.records, dense.records, strict=True)]
        assert line[2] == f"{dense.fid.mean:.2f} → {routed.fid.mean:.2f}"
        assert line[3].startswith(f"{np.mean(expected):+.2f} [".replace("-", "−"))


def test_one_route_per_architecture_needs_no_placement_and_several_get_a_panel_each(of_families):
    assert "route_placement" not in of_families and "speedup" not in of_families
    other = [
        of_family("DiT", s, "random", 2.0).model_copy(update={"routes": "0:8@0.5", "row": "early"}) for s in range(3)
    ]
    placement = drawn_alone(route_placement, comparison(architectures() + other))
    labels = [line[0] for line in placement.table]
    assert labels[0] == "dense backbone=DRWKV" and {"early", "tread-random backbone=DiT"} <= set(labels)
    assert len(labels) == 2 * len(FAMILIES) + 1


def test_selectors_are_compared_within_each_architecture():
    rows = comparison(selectors())
    table = drawn_alone(selector_differences, rows).table
    assert len(table) == 3 * len(SELECTORS)
    assert {line[1] for line in table} == set(SELECTORS)
    row = {row.label: row for row in rows}["tread-rows backbone=ZigMa"]
    shown = {line[0]: line[3] for line in table}["tread-rows backbone=ZigMa"]
    assert shown == f"{row.difference('fid').mean:+.2f}".replace("-", "−")


def test_a_method_that_has_one_selector_alone_says_nothing_of_selectors():
    """Methods that choose their own tokens stand beside each other, and no selector is compared."""
    own = record("sprint", "2:8@0.75", 0, 20.0, method="sprint", selector="stratified")
    rows = [record("dense", "", 0, 24.0), record("tread", "2:8@0.5", 0, 21.0), own]
    assert selector_differences(comparison(rows)) is None
    beside = record("rows", "2:8@0.5", 0, 22.0, selector="rows")
    picture = drawn_alone(selector_differences, comparison([*rows, beside]))
    assert {line[0] for line in picture.table} == {"tread", "rows"}


def test_neighbouring_times_are_neighbours_in_time_whatever_their_order():
    backwards = similarity("2:8@0.5").model_copy(update={"times": [0.9, 0.7, 0.5, 0.3, 0.1]})
    (row,) = comparison([record("2:8", "2:8@0.5", 0, 20.0, similarity=backwards)])
    adjacent = adjacent_times(row)
    assert list(adjacent) == [(0.1, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9)]
    assert adjacent[0.1, 0.3] == pytest.approx([table[4][3] for table in backwards.across_times])
    single = {"across_times": [[[1.0]]] * BLOCKS, "times": [0.5]}
    one_time = similarity("").model_copy(update=single)
    assert adjacent_times(comparison([record("dense", "", 0, 20.0, similarity=one_time)])[0]) == {}


def test_times_are_called_what_they_are_under_the_objective():
    levels = similarity("").model_copy(update={"times": [0.0646972, 0.160534, 0.301194, 0.565096, 1.40218]})
    edm = {"objective": {"name": "edm"}}
    under = {
        name: drawn_alone(across_times, comparison([cell]))
        for name, cell in (
            ("flow", record("dense", "", 0, 20.0)),
            ("edm", record("dense", "", 0, 20.0, similarity=levels, config=edm)),
        )
    }
    assert "neighbouring times t (0 is data, 1 is noise)" in under["flow"].caption
    assert "neighbouring noise levels σ" in under["edm"].caption
    assert under["edm"].headers[-4:] == ("0.0647–0.161", "0.161–0.301", "0.301–0.565", "0.565–1.4")


def test_gradients_show_both_losses_of_every_block_and_their_ratio_around_the_route(drawn):
    picture = drawn["gradients"]
    lines = {line[1]: line for line in picture.table if line[0] == "2:8"}
    found = [r.gradient_norms for r in study() if r.row == "2:8"]
    assert lines["0"][3] == f"{np.mean([g.training[0] for g in found]):.4f}"
    assert lines["0"][5] == f"{np.mean([g.dense[0] for g in found]):.4f}"
    assert [lines[str(block)][2] for block in (1, 2, 8, 9)] == ["–", "yes", "yes", "–"]
    assert [lines[str(block)][-1] for block in (1, 2, 8, 9)] == ["1.50", "0.75", "0.75", "1.00"]
    told = "2:8: 1.50 times before the route, 0.75 times inside the route and 1.00 times after the route"
    assert told in picture.description


@pytest.mark.slow
def test_of_more_rows_than_a_picture_can_hold_those_of_lowest_fid_are_drawn_and_the_table_has_all():
    routed = [record(f"row {i}", f"{i % 8}:8@0.{i // 8 + 1}", 0, 60.0 - i) for i in range(SHOWN + 3)]
    rows = comparison([*routed, record("dense", "", 0, 99.0)])
    shown = first_by_rank(rows)
    assert {row.name for row in shown} == {"dense", *(f"row {i}" for i in range(4, SHOWN + 3))}
    assert [row for row in rows if row in shown] == shown
    made = {picture.name: picture for picture in pictures(rows)}
    for name in ("fid_cost", "similarity", "across_times", "gradients"):
        assert f"Drawn: {SHOWN} of {SHOWN + 4} rows" in made[name].caption
        assert {line[0] for line in made[name].table} == {row.label for row in rows}
        assert f"row {SHOWN + 2}".encode() in made[name].svg and b"row 0" not in made[name].svg
    shown = first_by_rank(comparison(selectors(tuple(FAMILIES), 1)))
    assert [row.short_label for row in shown].count("dense") == 6 and len(shown) == SHOWN


def test_the_parts_of_a_step_add_up_to_a_dense_one(drawn):
    for line in drawn["speedup"].table:
        ideal, achieved = float(line[1]), float(line[2])
        dense, ideal_ms, taken, overhead = map(float, (value.replace("−", "-") for value in line[5:9]))
        assert ideal_ms == pytest.approx(dense / ideal, abs=0.4) and taken == pytest.approx(dense / achieved, abs=0.1)
        assert ideal_ms + overhead == pytest.approx(taken, abs=0.11)


def test_a_part_that_does_not_fall_with_the_tokens_is_what_exceeds_the_ideal(drawn):
    picture = drawn["step_parts"]
    lines = [dict(zip(picture.headers, line, strict=True)) for line in picture.table]
    assert {"products ms", "attention ms", "host ms"} < set(lines[0]) and "scans ms" not in lines[0]

    def ms(line: dict[str, str], header: str) -> float:
        return float(line[header].replace("−", "-"))

    (dense,) = (line for line in lines if line["row"] == "dense")
    for line in lines:
        parts = sum(ms(line, f"{part} ms") for part in ("products", "attention", "host"))
        assert parts == pytest.approx(ms(line, "step ms"), abs=0.2)
        assert ms(line, "host ms") == pytest.approx(ms(dense, "host ms"), rel=0.05)
        beyond = sum(ms(line, f"{part} beyond ideal ms") for part in ("products", "attention", "host"))
        assert beyond == pytest.approx(ms(line, "step ms") - ms(line, "ideal step ms"), abs=0.2)
    assert all(ms(line, "host beyond ideal ms") > 1 for line in lines if line["row"] != "dense")
    assert "2:8: most beyond ideal in " in picture.description


def test_the_parts_are_described_of_routed_rows_that_exceed_their_ideal(drawn):
    assert "dense: most beyond" not in drawn["step_parts"].description

    def faster(record):
        share = {"products": 0.3, "host": 0.1}
        return record.model_copy(update={"timing": record.timing.model_copy(update={"step_parts": share})})

    rows = comparison([faster(record) if record.row != "dense" else record for record in study(1)])
    assert drawn_alone(step_parts, rows).description == "Milliseconds of a training step by kind of work."


def test_a_step_that_was_not_profiled_has_no_parts():
    unknown = {"step_parts": None, "reference_step_parts": None}
    records = [r.model_copy(update={"timing": r.timing.model_copy(update=unknown)}) for r in study(1)]
    names = {picture.name for picture in pictures(comparison(records))}
    assert "speedup" in names and "step_parts" not in names


def test_the_marks_of_a_row_carry_its_name_and_its_numbers(drawn):
    for name in ("route_placement", "fid_cost", "speedup", "similarity"):
        picture = drawn[name]
        root = ElementTree.fromstring(str(picture.inline))
        groups = {group.get("data-row"): group for group in root.iter() if group.get("data-row")}
        assert set(groups) == {row_key(line[0]) for line in picture.table}
        lines = Counter(line[0] for line in picture.table)
        for line in picture.table:
            said = groups[row_key(line[0])].find("{http://www.w3.org/2000/svg}title").text
            assert said.startswith(line[0]) and (f"{picture.headers[1]}: " in said) is (lines[line[0]] == 1)
        ids = re.findall(rb' id="([^"]+)"', picture.svg)
        assert len(ids) == len(set(ids))


def test_panels_of_an_architecture_stand_in_one_line():
    made = panels(comparison(selectors(("DiT", "ZigMa"), 1)))
    heights = [round(axes.get_position().y0, 6) for axes in made.axes]
    assert len(set(heights[:6])) == len(set(heights[6:])) == 1 and heights[0] > heights[6]
    assert made.leads == made.in_first_column == ([True] + [False] * 5) * 2


@pytest.mark.parametrize(
    ("fids", "labels"), [((2.6, 30), ["5", "10", "20"]), ((8, 18), ["8", "10", "12", "14", "16", "18"])]
)
def test_an_axis_of_fids_has_numbers_all_along(fids, labels):
    axes = Figure().subplots()
    axes.set_ylim(*fids)
    logarithmic(axes)
    axes.figure.draw_without_rendering()
    low, high = axes.get_ylim()
    shown = [label.get_text() for label in axes.get_yticklabels() if low <= label.get_position()[1] <= high]
    assert shown == labels


def test_names_at_the_ends_of_lines_keep_their_order_and_cover_nothing():
    figure = Figure(figsize=(9.6, 4.4))
    axes = figure.subplots()
    heights = [1.0, 1.01, 1.02, 1.03, 9.0, 9.9, 10.0]
    for y in heights:
        axes.plot([0, 1], [2, y])
    axes.set(yscale="log")
    label_ends(axes, [End(1.0, y, f"row {y}", f"row {y}", COLOURS[0], "o") for y in heights])
    placed = [text.xyann[1] for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == [f"row {y}" for y in heights]
    assert min(np.diff(placed)) > 0.15 / 4.4 and max(placed) <= 1
    assert all(text.xy == (1.0, y) for text, y in zip(axes.texts, heights, strict=True))


def test_every_bar_of_a_step_has_the_name_of_its_row(drawn):
    texts = [
        text.text for text in ElementTree.fromstring(drawn["step_parts"].svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {line[0] for line in drawn["step_parts"].table} <= set(texts)
