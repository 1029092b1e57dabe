"""The page holds what it promises, escapes everything, and needs nothing beside it."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from synthetic_budgets import budget_row, dense
from synthetic_records import (
    HOSTILE,
    architectures,
    asked,
    evaluation,
    failed,
    photographs,
    record,
    render,
    study,
    tiles,
    timing,
    write_grid,
    write_samples,
)

from tread_bench.cli.comparison import print_comparison
from tread_bench.core.stored.records import DataFile
from tread_bench.measure.quality.png import grid_png
from tread_bench.reports.cautions import of_rows, of_smoke_run
from tread_bench.reports.figures.pictures import pictures
from tread_bench.reports.frame import results_frame, rows_frame
from tread_bench.reports.study import Study
from tread_bench.services.decisions import decisions_of

VERDICT = '<p class="quality">'


@pytest.fixture(scope="module")
def page(run_dir):
    return (run_dir / "index.html").read_text(encoding="utf-8")


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_the_page_needs_nothing_beside_it_and_only_its_own_script_may_run(page):
    for _, attrs in Tags(page).found:
        pointed = [attrs.get(name) or "#" for name in ("src", "href", "xlink:href", "action", "data")]
        assert all(one.startswith(("#", "data:")) for one in pointed)
    assert "@import" not in page and "url(http" not in page and len(page) < 500_000
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [a["content"] for t, a in Tags(page).found if a.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy
    assert [t for t, _ in Tags(page).found].count("script") == 1
    assert not [a for _, a in Tags(page).found if any(name.startswith("on") for name in a)]


def test_reasons_and_names_are_escaped(page):
    assert HOSTILE not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "Example CPU <b>" not in page and "Example CPU &lt;b&gt;" in page


def test_counts_conditions_and_cautions(page, records):
    for text in ("cells done", "Metric protocol", "9f3c1a7be042", "digits-classifier", "matmul relative error"):
        assert text in page
    assert "are not comparable with published" in page
    assert all(f'id="cell-{record.cell}"' in page for record in records)
    assert page.count("data:image/png;base64,") >= 7


def missing_cells(page: str) -> list[str]:
    section = re.search(r'<section aria-labelledby="missing">(.*?)</section>', page, re.DOTALL)
    return re.findall(r"<li><code>(.*?)</code>", section[1]) if section else []


TWO = (("dense", ""), ("2:8", "2:8@0.5"))
BARE = {"timing": None, "similarity": None, "gradient_norms": None}


def both(*evaluations, **changes):
    """A cell of dense training and one of a route, with these evaluations."""
    found = []
    for place, (row, routes) in enumerate(TWO):
        own = {"evaluations": [evaluations[place % len(evaluations)]]} if evaluations else {}
        found.append(record(row, routes, 0, 17.0 + place, **own | changes))
    return found


def test_the_page_of_a_run_that_is_not_over_says_what_is_missing_and_that_of_a_finished_one_nothing(page_of):
    cells = [record(row, routes, seed, 20.0) for row, routes in TWO for seed in range(3)]
    planned = [one.cell for one in cells]
    untimed = cells[0].model_copy(update={"timing": None})
    broken = failed("2:8", "2:8@0.5", 1, "out of memory: 9 GiB")
    left = [one.cell for one in cells if one not in (cells[0], cells[1], cells[4])]
    none, some, every = (page_of(there, cells=planned) for there in ([], [untimed, cells[1], broken], cells))
    assert [missing_cells(page) for page in (none, some, every)] == [planned, left, []]
    assert "6 of 6 planned cells have no result yet" in none and "No cell has a record yet" in none
    for told in ("3 of 6 planned cells have no", "the speed of 1 cell is not measured yet", "out of memory: 9 GiB"):
        assert told in some
    assert "no result yet" not in every and "not measured yet" not in every


def test_of_a_run_that_is_not_over_what_is_not_known_is_not_known_yet(page_of):
    dense = record("dense", "", 0, 20.0)
    page = page_of([dense], cells=[dense.cell, "2-8"], rows={dense.cell: ("dense", 0), "2-8": ("2:8", 0)})
    assert "No decision: no row was compared with dense yet." in page and "<code>2-8</code> 2:8 seed 0" in page
    assert "No decision: no row was compared with dense." in page_of([dense])


@pytest.mark.parametrize(("rows", "words"), [(["2:8"], "5 seeds"), (["2:8", "0:8"], "the lowest of 2 rows")])
def test_without_equal_macs_a_difference_is_shown_and_nothing_is_decided(records, page_of, rows, words):
    page = page_of([record for record in records if record.row in ("dense", *rows)])
    assert "At equal iterations 2:8 differs from dense by +" in page and f"{words}; this is not tested." in page


def test_a_smoke_run_is_labelled_and_has_no_verdict(page, page_of, tmp_path, capsys):
    as_smoke = study(2)
    smoke = page_of(as_smoke, drawn=pictures, smoke=True)
    for words in ("lowest", "better than", "worse than", "No decision"):
        assert words not in smoke.partition('<h2 id="comparison">')[0]
    assert ' class="best">' in page and ' class="best">' not in smoke
    assert "<h1>route_placement (smoke run)" in smoke and of_smoke_run([]) in smoke and "smoke" not in page
    assert (pd.read_csv(tmp_path / "results.csv")["smoke"] == "yes").all()
    for is_smoke in (False, True):
        print_comparison(Study(as_smoke, is_smoke=is_smoke), len(as_smoke))
    before, after = capsys.readouterr().out.split("SMOKE RUN. ")
    assert "smoke" not in before and "nothing is ranked" in " ".join(after.split())


def test_an_fid_that_is_not_finite_is_said_and_stops_nothing(page_of):
    rows = (*TWO, ("0:8", "0:8@0.5"))
    records = [record(row, routes, seed, 20.0, **BARE) for row, routes in rows for seed in range(3)]
    odd = records[4].evaluations[-1].model_copy(update={"fid": math.inf})
    records[4] = records[4].model_copy(update={"evaluations": [odd]})
    assert "FIDs that are not finite are left out" in page_of(records, drawn=pictures)
    assert rows_frame(results_frame(records)).set_index("row").loc["2:8", "fid"] < 100


def test_a_mean_that_is_lowest_because_a_hard_seed_is_missing_is_not_called_the_lowest():
    records = []
    for row, above in {"dense": 0.0, "2:8": 1.0, "0:8": 3.0}.items():
        for seed, hard in enumerate((0.0, 0.0, 0.0, 30.0)):
            routes = "" if row == "dense" else f"{row}@0.5"
            fid = 20 + hard + above + 0.1 * (seed + above) % 0.3
            records.append(record(row, routes, seed, None, evaluations=[evaluation(1200, fid)], **BARE))
    rows = Study(records[:-1]).rows
    assert min(rows, key=lambda row: row.fid.mean).name == "0:8"
    assert [row.name for row in rows if row.is_lowest_fid] == ["dense"]


def test_a_record_that_cannot_be_read_is_named_and_neither_missing_nor_counted(page_of):
    made = [*dense(), *budget_row()]
    cells = [*(one.cell for one in made), "torn"]
    page = page_of(made, {"torn": "torn/record.json cannot be read <b>"}, cells=cells)
    assert "a cell is left out of this page: torn/record.json cannot be read &lt;b&gt;." in page
    assert missing_cells(page) == [] and "<dt>unreadable</dt><dd" in page and "no result yet" not in page
    (decision,) = decisions_of(Study(made), len(cells))
    assert decision["sentence"].startswith("So far: ") and decision["sentence"] in page


def test_rendering_again_changes_no_byte(records, plan, run_dir):
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    render(list(reversed(records)), plan, run_dir, pictures=pictures)
    assert before == {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}


def test_a_picture_that_is_no_longer_drawn_goes(tmp_path, page_of):
    page_of(both(similarity=None), drawn=pictures)
    assert (tmp_path / "figures" / "route_placement.svg").exists()
    (tmp_path / "figures" / "mine.svg").write_text("kept")
    page_of([])
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["mine.svg"]


def shown(page):
    """The images of each strip of the page, decoded."""
    strips = re.findall('<div class="strip[^>]*>(.*?)</div>', page)
    found = [re.findall('src="data:image/webp;base64,([^"]*)"', strip) for strip in strips]
    return [[Image.open(io.BytesIO(base64.b64decode(image))) for image in images] for images in found]


def sampled(**changes):
    return evaluation(1200, 17.0).model_copy(update=changes)


def test_samples_are_grids_that_a_cell_wrote_into_its_own_folder(tmp_path, page_of):
    grid = grid_png(tiles(0, 8))
    own, other = both(sampled(samples="grid.png", samples_sha256=hashlib.sha256(grid).hexdigest()), similarity=None)
    write_grid(tmp_path, own, grid)
    write_grid(tmp_path, other, grid_png(tiles(1, 8)))
    page = page_of([own, other])
    assert len(shown(page)) == 1 and 'aria-label="8 generated images: dense, seed 0' in page
    assert f"cells/{other.cell}/grid.png: not found, or changed since its cell wrote it" in page
    write_grid(tmp_path, own, b"no picture")
    assert shown(page_of([own.model_copy(update={"evaluations": [sampled(samples="grid.png")]})])) == []


@pytest.mark.parametrize(("channels", "count"), [(1, 40), (3, 40), (3, 3)])
def test_small_images_are_shown_to_the_bit_eight_of_each_row_in_their_order(tmp_path, page_of, channels, count):
    images = tiles(1, 12, channels, count)
    records = [record("dense", "", 0, 17.0, evaluations=[sampled(num_samples=count)])]
    write_grid(tmp_path, records[0], grid_png(images))
    page = page_of(records)
    [strip] = shown(page)
    assert len(strip) == min(count, 8)
    for image, expected in zip(strip, images, strict=False):
        assert np.array_equal(np.asarray(image.convert("RGB")), expected.expand(3, -1, -1).permute(1, 2, 0))
    assert "reduced" not in page and "compressed;" not in page


@pytest.mark.parametrize(("side", "shown_side"), [(32, 32), (64, 64), (256, 128)])
def test_every_row_is_shown_as_large_as_the_budget_allows(tmp_path, page_of, side, shown_side):
    records = [record(f"{start}:{start + 4}", f"{start}:{start + 4}@0.5", 0, 20.0) for start in range(8)]
    for one in records:
        write_grid(tmp_path, one, grid_png(photographs(side)))
    page = page_of(records)
    assert [[image.size for image in strip] for strip in shown(page)] == [[(shown_side, shown_side)] * 8] * 8
    assert sum(map(len, re.findall('data:image/webp;base64,[^"]*"', page))) < 650_000
    assert ("reduced from 256 to 128 pixels, compressed" in page) is (side > shown_side)


def test_captions_stand_below_the_grid_of_their_samples_shortened(tmp_path, page_of):
    captions = ["a bold Latin capital K", "two <b>words</b>", "w" * 100_000]
    records = both(sampled(captions=captions), sampled(), similarity=None)
    write_samples(records, tmp_path)
    page = page_of(records)
    assert page.count('<ol class="captions">') == 1 and "3 captions, in their order" in page
    listed = re.findall("<li>(.*)</li>", page[page.index('<ol class="captions">') :].split("</ol>")[0])
    assert listed == ["a bold Latin capital K", "two &lt;b&gt;words&lt;/b&gt;", f"{'w' * 120}…"]


def test_training_images_are_shown_once_and_first(tmp_path, page_of):
    picture = grid_png(tiles(0, 8, count=10))
    told = {"real_samples": "real.png", "real_samples_sha256": hashlib.sha256(picture).hexdigest()}
    records = both(sampled(**told), similarity=None)
    write_samples(records, tmp_path)
    (tmp_path / "cells" / records[0].cell / "real.png").write_bytes(picture)
    labels = re.findall('<div class="strip[^>]*aria-label="([^"]*)"', page_of(records))
    assert [label.partition(":")[0] for label in labels] == ["8 training images", *["8 generated images"] * 2]


@pytest.mark.parametrize(("contents", "is_told"), [(("a", "a"), False), (("a", ""), False), (("a", "b"), True)])
def test_a_caution_tells_of_data_that_were_not_the_same_for_all_cells(page_of, contents, is_told):
    cells = []
    for one, sha256 in zip(both(), contents, strict=True):
        files = {"/data/train.st": DataFile(bytes=3, sha256=sha256)}
        cells.append(one.model_copy(update={"data_files": files}))
    assert ("/data/train.st had different contents for some of them" in page_of(cells)) is is_told


@pytest.mark.parametrize(
    ("control", "is_disturbed"),
    [
        ((1.02, 0.95, 1.05), False),
        ((1.19, 0.98, 1.52), True),  # so wide that it shows nothing
        ((1.0, 0.93, 1.01), True),
    ],
)
def test_a_dense_step_that_is_not_surely_as_fast_as_itself_is_a_caution(control, is_disturbed, page_of):
    speed = dict(zip(("speedup", "speedup_low", "speedup_high"), control, strict=True))
    cells = both()
    cells[0] = cells[0].model_copy(update={"timing": timing(1.0, 0).model_copy(update=speed)})
    said = "dense {:.2f} ({:.2f} to {:.2f}). Something else used the machine".format(*control)
    page = page_of(cells)
    assert (said in page) is is_disturbed is ("timed against itself" in page)
    assert not [*of_rows(Study(cells, is_smoke=True).rows)]  # whose speeds say nothing anyway


@pytest.mark.parametrize(("share", "is_starved"), [(0.05, False), (0.121, True)])
def test_a_training_loop_that_waits_for_its_data_is_shown_and_is_a_caution(share, is_starved, page_of):
    waiting = timing(1.2, 0).model_copy(update={"loop_time_ms": 61.0, "data_wait_share": share})
    cells = [record("dense", "", 0, 17.0, 1.0), record("2:8", "2:8@0.5", 0, 18.0, timing=waiting)]
    page = page_of(cells)
    assert "Data wait" in page and f"{100 * share:.1f} %" in page
    assert ("up to 12% of the training loop of 2:8" in page) is is_starved
    line = results_frame(cells).iloc[-1]
    assert (line.loop_time_ms, line.data_wait_share) == (61.0, share)


def test_how_cells_were_trained_is_said(records, plan, page_of):
    """Time that holds compilation, the average's warm-up, where they start; no empty entries, at most six digits."""
    start = {"start": {"row": "pretrained", "iteration": 1200, "run": None}, "ema_decay": 0.9999}
    made = []
    for one, batch in zip(records[:2], (32, 64), strict=True):
        compiled = one.conditions.model_copy(update={"compile": True})
        made.append(asked(one, training=start | {"batch": batch}).model_copy(update={"conditions": compiled}))
    numerics = {**plan["numerics"], "matmul_relative_error": 0.00000032123456789, "device_name": ""}
    page = page_of(made, numerics=numerics)
    assert "Training s, with compilation" in page and "with compilation" not in page_of(records[:2])
    assert "0.9999, from step 0 at most (1 + step) / (10 + step)" in page
    conditions = page.partition('id="conditions"')[2].partition("</section>")[0]
    assert "<dt>start</dt><dd>iteration=1200, row=pretrained</dd>" in conditions
    assert "<dt>batch</dt><dd>32 or 64</dd>" in conditions
    assert "<dt>matmul relative error</dt><dd>3.21235e-07</dd>" in conditions
    assert not re.search("<dd>(–|)</dd>", conditions) and "device name" not in conditions


@pytest.mark.full
def test_two_hundred_cells_can_still_be_mailed(tmp_path, page_of):
    rows = {f"row {i}": f"{i % 8}:{8 + i % 4}@0.{1 + i // 8}" for i in range(40)}
    records = [record(row, routes, seed, 20.0) for row, routes in rows.items() for seed in range(5)]
    assert len(page_of(records[:45], drawn=pictures)) < 450_000
    for one in records[::5]:
        write_grid(tmp_path, one, grid_png(photographs(128)))
    page = page_of(records, drawn=pictures)
    assert len(page) < 1_650_000 and len(shown(page)) == 40 and "left out to keep" not in page


def test_protocols_get_tables_and_verdicts_of_their_own(page_of):
    biased = evaluation(1200, 18.0, "other").model_copy(update={"protocol_details": {"caution": "64 samples: biased"}})
    other = [record("2:8", "2:8@0.5", seed, 1.0, evaluations=[biased]) for seed in range(2)]
    page = page_of([record("dense", "", seed, 17.0) for seed in range(2)] + other)
    assert 'id="group-1"' in page and 'id="group-2"' in page and "protocol other" in page
    assert page.count(VERDICT) == 2 and "<strong>Caution:</strong> 64 samples: biased" in page


@pytest.mark.parametrize(("iteration", "told"), [(600, "iteration 600"), (1200, "protocol other")])
def test_pictures_that_several_comparisons_have_are_told_apart(iteration, told, page_of):
    made = []
    for depth, at, protocol in ((12, 1200, "one"), (8, iteration, "other")):
        for seed in range(2):
            row = record(f"dense {depth}", "", seed, 1.0, evaluations=[evaluation(at, 18.0 + seed, protocol)])
            made.append(row.model_copy(update={"backbone": f"DiT (depth {depth})"}))
    page = page_of(made, drawn=pictures)
    titles = re.findall(r'<a href="#[^"]*">([^<]*)', page.partition("<nav")[2].partition("</nav>")[0])
    assert len({*titles}) == len(titles) and [title for title in titles if title.endswith(f", {told}")]


def test_rows_that_only_evaluate_have_no_decision_and_say_what_a_sample_costs(page_of, capsys):
    records = []
    for seed in (0, 1):
        for name, routes in TWO:
            records.append(record(name, routes, seed, 17.0, evaluations=[evaluation(1200, 17.0 + seed, "one")]))
        for budget in (2, 4):
            changes = {"reference": f"elit-{seed}", "evaluations": [evaluation(1507, 17.0 + seed, "one")]}
            made = record(f"elit-{budget}", "2:8@0.75", seed, 17.0, sampling_macs=budget * 10**9, **changes)
            records.append(asked(made, evaluate={"row": "elit"}))
    page = page_of(records)
    assert "elit-2" in page and "Sampling GMACs" in page
    print_comparison(Study(records), len(records))
    shown = capsys.readouterr().out
    assert shown.count("No decision") == 1 and "Sampling" in shown.partition("elit-2")[0] and "4.000" in shown


def test_rows_that_others_start_from_have_figures_and_no_verdict(page_of):
    """They stand alone, since they were trained on other data."""
    source = [record("pretrained", "", seed, 1.0, evaluations=[evaluation(1200, 18.0, "other")]) for seed in range(2)]
    start = {"row": "pretrained", "iteration": 1200, "run": None}
    others = [asked(one, training={"start": start}) for one in both()]
    page = page_of([*source, *others])
    assert page.count(VERDICT) == 1 == page_of([*source, others[0]]).count(VERDICT)
    assert "no row was compared" not in page and "pretrained" in page


def test_spatial_fid_has_a_column_where_some_cell_has_it_and_else_its_reason_beside_the_protocol(page_of):
    reason = {"not_measured": {"sFID": "spatial features, and feature network digits-classifier has none"}}
    without = sampled(protocol_details=evaluation(1200, 18.0).protocol_details | reason)
    for value, is_measured in ((without, False), (without.model_copy(update={"sfid": 6.5}), True)):
        page = page_of([record("dense", "", 0, 1.0, evaluations=[value])])
        titles = page.partition('id="cells"')[2].partition("<thead>")[2].partition("</thead>")[0]
        assert ("sFID" in titles) is is_measured
        assert "spatial features, and feature network digits-classifier has none" in page


def test_several_architectures_get_a_table_each_and_no_ranking(tmp_path, page_of):
    page = page_of(architectures(), drawn=pictures)
    assert len(re.findall(r'<details id="group-\d"', page)) == 3
    assert page.index("Gain in FID") < page.index("Rows of each architecture")
    assert (tmp_path / "figures" / "gain.svg").is_file() and len(page) < 600_000
