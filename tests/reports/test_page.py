"""The page holds what it promises, escapes everything, and needs nothing beside it."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import math
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from synthetic_records import (
    DRAWN,
    HOSTILE,
    architectures,
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
from synthetic_studies import equal_cost

from tread_bench.cli.comparison import print_comparison
from tread_bench.core.stored.records import DataFile
from tread_bench.measure.quality.png import grid_png
from tread_bench.reports.cautions import of_rows, of_smoke_run
from tread_bench.reports.figures.pictures import pictures
from tread_bench.reports.frame import results_frame, rows_frame
from tread_bench.reports.study import Study
from tread_bench.services.decisions import decisions_of


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


def test_the_run_folder_gets_page_figures_and_table(run_dir):
    assert {"index.html", "results.csv", "figures", "cells"} == {path.name for path in run_dir.iterdir()}
    assert {path.name for path in (run_dir / "figures").iterdir()} == {f"{name}.svg" for name in DRAWN}


def test_nothing_points_outside(page):
    tags = Tags(page).found
    for tag, attrs in tags:
        for name in ("src", "href", "xlink:href", "action", "data"):
            value = attrs.get(name) or "#"
            assert value.startswith(("#", "data:")), (tag, value)
    assert "@import" not in page and "url(http" not in page
    assert len(page) < 500_000


def test_only_the_pages_own_script_may_run(page):
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
    for text in (
        "cells done",
        "missing",
        "Metric protocol",
        "9f3c1a7be042",
        "digits-classifier",
        "matmul relative error",
    ):
        assert text in page
    assert "are not comparable with published" in page and "training loss are different quantities" in page
    assert all(f'id="cell-{record.cell}"' in page for record in records)
    assert page.count("data:image/png;base64,") >= 7


def missing_cells(page: str) -> list[str]:
    section = re.search(r'<section aria-labelledby="missing">(.*?)</section>', page, re.DOTALL)
    return re.findall(r"<li><code>(.*?)</code>", section[1]) if section else []


def test_the_page_of_a_run_that_is_not_over_says_what_is_missing_and_that_of_a_finished_one_nothing(plan, tmp_path):
    rows = (("dense", ""), ("2:8", "2:8@0.5"))
    cells = [record(row, routes, seed, 20.0) for row, routes in rows for seed in range(3)]
    asked = {**plan, "cells": [one.cell for one in cells]}
    untimed = cells[0].model_copy(update={"timing": None})
    broken = failed("2:8", "2:8@0.5", 1, "out of memory: 9 GiB")
    pages = []
    for there in ([], [untimed, cells[1], broken], cells):
        pages.append(render(there, asked, tmp_path))
    left = [one.cell for one in cells if one not in (cells[0], cells[1], cells[4])]
    assert list(map(missing_cells, pages)) == [asked["cells"], left, []]
    assert "6 of 6 planned cells have no result yet" in pages[0]
    assert "3 of 6 planned cells have no result yet" in pages[1]
    assert "the speed of 1 cell is not measured yet" in pages[1]
    assert "out of memory: 9 GiB" in pages[1]
    assert "no result yet" not in pages[2] and "not measured yet" not in pages[2]


def test_of_a_run_that_is_not_over_what_is_not_known_is_not_known_yet(plan, tmp_path):
    dense = record("dense", "", 0, 20.0)
    pages = []
    for there, planned in (([dense], [dense.cell, "2-8"]), ([dense], [dense.cell]), ([], [dense.cell])):
        pages.append(render(there, {**plan, "cells": planned, "rows": dict.fromkeys(planned, ("2:8", 0))}, tmp_path))
    assert "No decision: no row was compared with dense yet." in pages[0]
    assert "<code>2-8</code> 2:8 seed 0" in pages[0]
    assert "No decision: no row was compared with dense." in pages[1]
    assert "No cell has a record yet" in pages[2] and "cover only the existing results" not in pages[2]


@pytest.mark.parametrize(("rows", "words"), [(["2:8"], "5 seeds"), (["2:8", "0:8"], "the lowest of 2 rows")])
def test_without_equal_macs_a_difference_is_shown_and_nothing_is_decided(records, plan, tmp_path, rows, words):
    chosen = [record for record in records if record.row in ("dense", *rows)]
    page = render(chosen, {**plan, "cells": [record.cell for record in chosen]}, tmp_path)
    assert "At equal iterations 2:8 differs from dense by +" in page and f"{words}; this is not tested." in page


def test_a_smoke_run_is_labelled_and_has_no_verdict(records, plan, run_dir, tmp_path, capsys):
    as_smoke = study(2)
    render(as_smoke, {**plan, "cells": [one.cell for one in as_smoke], "smoke": True}, tmp_path, pictures=pictures)
    in_earnest, smoke = ((folder / "index.html").read_text(encoding="utf-8") for folder in (run_dir, tmp_path))
    tables = [pd.read_csv(folder / "results.csv") for folder in (run_dir, tmp_path)]
    print_comparison(Study(records), len(records))
    print_comparison(Study(as_smoke, is_smoke=True), len(records))
    for words in ("lowest", "better than", "worse than", "No decision"):
        assert words not in smoke.partition('<h2 id="comparison">')[0] and "lowest mean FID" not in smoke
    assert ' class="best">' in in_earnest and ' class="best">' not in smoke
    assert "<title>route_placement (smoke run)" in smoke and "<h1>route_placement (smoke run)" in smoke
    assert of_smoke_run([]) in smoke
    assert "smoke" not in in_earnest
    assert tables[0]["smoke"].isna().all() and (tables[1]["smoke"] == "yes").all()
    before, after = capsys.readouterr().out.split("SMOKE RUN. ")
    assert "smoke" not in before and "smoke run" in after and "nothing is ranked" in " ".join(after.split())


def test_an_fid_that_is_not_finite_is_said_and_stops_nothing(tmp_path, plan):
    rows = [("dense", ""), ("2:8", "2:8@0.5"), ("0:8", "0:8@0.5")]
    records = [record(row, routes, seed, 20.0, timing=None, similarity=None, gradient_norms=None)
               for row, routes in rows for seed in range(3)]  # fmt: skip
    odd = records[4].evaluations[-1].model_copy(update={"fid": math.inf})
    records[4] = records[4].model_copy(update={"evaluations": [odd]})
    page = render(records, {**plan, "cells": [one.cell for one in records]}, tmp_path, pictures=pictures)
    assert "FIDs that are not finite are left out" in page
    assert rows_frame(results_frame(records)).set_index("row").loc["2:8", "fid"] < 100


def test_a_mean_that_is_lowest_because_a_hard_seed_is_missing_is_not_called_the_lowest():
    hard, above = [0.0, 0.0, 0.0, 30.0], {"dense": 0.0, "2:8": 1.0, "0:8": 3.0}
    fids = {
        (row, seed): 20 + hard[seed] + above[row] + 0.1 * (seed + above[row]) % 0.3
        for row in above for seed in range(4) if (row, seed) != ("0:8", 3)
    }  # fmt: skip
    bare = {"timing": None, "similarity": None, "gradient_norms": None}
    records = [
        record(row, "" if row == "dense" else f"{row}@0.5", seed, None, evaluations=[evaluation(1200, fid)], **bare)
        for (row, seed), fid in fids.items()
    ]
    rows = Study(records).rows
    assert min(rows, key=lambda row: row.fid.mean).name == "0:8"
    assert [row.name for row in rows if row.is_lowest_fid] == ["dense"]


def test_a_record_that_cannot_be_read_is_named_and_neither_missing_nor_counted(plan, tmp_path):
    there = record("dense", "", 0, 20.0)
    page = render(
        [there], {**plan, "cells": [there.cell, "torn"]}, tmp_path, {"torn": "torn/record.json cannot be read <b>"}
    )
    assert "a cell is left out of this page: torn/record.json cannot be read &lt;b&gt;." in page
    assert missing_cells(page) == [] and "<dt>unreadable</dt><dd" in page and "no result yet" not in page


def test_with_an_unreadable_record_the_decision_is_one_so_far_on_the_page_as_elsewhere(plan, tmp_path):
    made = equal_cost(2, 4)
    cells = [*(one.cell for one in made), "torn"]
    page = render(made, {**plan, "cells": cells}, tmp_path, {"torn": "torn/record.json cannot be read"})
    (decision,) = decisions_of(Study(made), len(cells))
    assert decision["sentence"].startswith("So far: ") and decision["sentence"] in page


def test_rendering_again_changes_no_byte(records, plan, run_dir):
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    render(list(reversed(records)), plan, run_dir, pictures=pictures)
    assert before == {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}


def test_a_picture_that_is_no_longer_drawn_goes(tmp_path, plan):
    render(
        [record("dense", "", 0, 17.0), record("2:8", "2:8@0.5", 0, 18.0, similarity=None)],
        plan,
        tmp_path,
        pictures=pictures,
    )
    assert (tmp_path / "figures" / "route_placement.svg").exists()
    (tmp_path / "figures" / "mine.svg").write_text("kept")
    render([], plan, tmp_path)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["mine.svg"]
    assert "No cell has a record yet" in (tmp_path / "index.html").read_text(encoding="utf-8")


def shown(page):
    """The images of each strip of the page, decoded."""
    strips = re.findall('<div class="strip[^>]*>(.*?)</div>', page)
    found = [re.findall('src="data:image/webp;base64,([^"]*)"', strip) for strip in strips]
    return [[Image.open(io.BytesIO(base64.b64decode(image))) for image in images] for images in found]


def test_sample_files_are_read_from_the_cells_folder_only(tmp_path, plan):
    (tmp_path / "secret.png").write_bytes(grid_png(tiles(0, 8)))
    outside = evaluation(1200, 17.0).model_copy(update={"samples": "../../secret.png"})
    not_a_picture = evaluation(1200, 17.0).model_copy(update={"samples": "text.png"})
    cells = (("dense", "", outside), ("2:8", "2:8@0.5", not_a_picture))
    records = [record(row, routes, 0, 17.0, evaluations=[one], similarity=None) for row, routes, one in cells]
    text = tmp_path / "cells" / records[1].cell / "text.png"
    text.parent.mkdir(parents=True)
    text.write_text("no picture")
    page = render(records, plan, tmp_path)
    assert page.count("not found") == 2 and shown(page) == []


def test_only_the_grid_that_a_cell_wrote_is_shown_as_its_own(tmp_path, plan):
    grids = {row: grid_png(tiles(seed, 8)) for seed, row in enumerate(("dense", "2:8"))}
    told = {"samples": "grid.png", "samples_sha256": hashlib.sha256(grids["dense"]).hexdigest()}
    one = evaluation(1200, 17.0).model_copy(update=told)
    records = [
        record(row, routes, 0, 17.0, evaluations=[one], similarity=None)
        for row, routes in (("dense", ""), ("2:8", "2:8@0.5"))
    ]
    for cell, picture in zip(records, grids.values(), strict=True):
        path = tmp_path / "cells" / cell.cell / "grid.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(picture)
    page = render(records, plan, tmp_path)
    assert len(shown(page)) == 1 and 'aria-label="8 generated images: dense, seed 0' in page
    assert f"cells/{records[1].cell}/grid.png: not found, or changed since its cell wrote it" in page


@pytest.mark.parametrize(("channels", "count"), [(1, 40), (3, 40), (3, 3)])
def test_small_images_are_shown_to_the_bit_eight_of_each_row_in_their_order(tmp_path, plan, channels, count):
    images = tiles(1, 12, channels, count)
    one = evaluation(1200, 17.0).model_copy(update={"num_samples": count})
    records = [record("dense", "", 0, 17.0, evaluations=[one])]
    write_grid(tmp_path, records[0], grid_png(images))
    page = render(records, plan, tmp_path)
    [strip] = shown(page)
    assert len(strip) == min(count, 8)
    for image, expected in zip(strip, images, strict=False):
        assert np.array_equal(np.asarray(image.convert("RGB")), expected.expand(3, -1, -1).permute(1, 2, 0))
    assert "reduced" not in page and "compressed;" not in page


@pytest.mark.parametrize(("side", "shown_side"), [(32, 32), (64, 64), (256, 128)])
def test_every_row_is_shown_as_large_as_the_budget_allows(tmp_path, plan, side, shown_side):
    records = [record(f"{start}:{start + 4}", f"{start}:{start + 4}@0.5", 0, 20.0) for start in range(8)]
    for one in records:
        write_grid(tmp_path, one, grid_png(photographs(side)))
    page = render(records, plan, tmp_path)
    assert [[image.size for image in strip] for strip in shown(page)] == [[(shown_side, shown_side)] * 8] * 8
    assert sum(map(len, re.findall('data:image/webp;base64,[^"]*"', page))) < 650_000
    assert ("reduced from 256 to 128 pixels, compressed" in page) is (side > shown_side)


def test_captions_stand_below_the_grid_of_their_samples_shortened(tmp_path, plan):
    captions = ["a bold Latin capital K", "two <b>words</b>", "w" * 100_000]
    captioned = evaluation(1200, 17.0).model_copy(update={"captions": captions})
    cells = (("dense", "", captioned), ("2:8", "2:8@0.5", evaluation(1200, 18.0)))
    records = [record(row, routes, 0, 17.0, evaluations=[one], similarity=None) for row, routes, one in cells]
    write_samples(records, tmp_path)
    page = render(records, plan, tmp_path)
    assert page.count('<ol class="captions">') == 1 and "3 captions, in their order" in page
    listed = re.findall("<li>(.*)</li>", page[page.index('<ol class="captions">') :].split("</ol>")[0])
    assert listed == ["a bold Latin capital K", "two &lt;b&gt;words&lt;/b&gt;", f"{'w' * 120}…"]
    assert "Generated from the same noise and captions" in page


def test_training_images_are_shown_once_and_first(tmp_path, plan):
    picture = grid_png(tiles(0, 8, count=10))
    told = {"real_samples": "real.png", "real_samples_sha256": hashlib.sha256(picture).hexdigest()}
    one = evaluation(1200, 17.0).model_copy(update=told)
    records = [
        record(row, routes, 0, 17.0, evaluations=[one], similarity=None)
        for row, routes in (("dense", ""), ("2:8", "2:8@0.5"))
    ]
    write_samples(records, tmp_path)
    (tmp_path / "cells" / records[0].cell / "real.png").write_bytes(picture)
    page = render(records, plan, tmp_path)
    labels = re.findall('<div class="strip[^>]*aria-label="([^"]*)"', page)
    assert [label.partition(":")[0] for label in labels] == ["8 training images", *["8 generated images"] * 2]
    assert "the scale or the decoder does not fit them" in page


@pytest.mark.parametrize(("contents", "is_told"), [(("a", "a"), False), (("a", ""), False), (("a", "b"), True)])
def test_a_caution_tells_of_data_that_were_not_the_same_for_all_cells(tmp_path, plan, contents, is_told):
    cells = [
        record(row, routes, 0, 17.0).model_copy(
            update={"data_files": {"/data/train.st": DataFile(bytes=3, sha256=sha256)}}
        )
        for (row, routes), sha256 in zip((("dense", ""), ("2:8", "2:8@0.5")), contents, strict=True)
    ]
    page = render(cells, plan, tmp_path)
    assert ("/data/train.st had different contents for some of them" in page) is is_told


@pytest.mark.parametrize(
    ("control", "is_disturbed"),
    [
        ((1.0, 0.99, 1.01), False),
        ((1.02, 0.96, 1.05), False),
        ((1.3, 1.29, 1.31), True),
        ((0.8, 0.79, 0.81), True),
        ((1.19, 0.98, 1.52), True),  # so wide that it shows nothing
        ((1.0, 0.93, 1.01), True),
    ],
)
def test_a_dense_step_that_is_not_surely_as_fast_as_itself_is_a_caution(control, is_disturbed, plan, tmp_path):
    found = timing(1.0, 0).model_copy(
        update=dict(zip(("speedup", "speedup_low", "speedup_high"), control, strict=True))
    )
    cells = [record("dense", "", 0, 17.0, timing=found), record("2:8", "2:8@0.5", 0, 18.0)]
    page = render(cells, plan, tmp_path)
    said = "dense {:.2f} ({:.2f} to {:.2f}). Something else used the machine".format(*control)
    assert (said in page) is is_disturbed is ("timed against itself" in page)
    assert not [*of_rows(Study(cells, is_smoke=True).rows)]  # whose speeds say nothing anyway


@pytest.mark.parametrize(("share", "is_starved"), [(0.0, False), (0.004, False), (0.121, True)])
def test_a_training_loop_that_waits_for_its_data_is_shown_and_is_a_caution(share, is_starved, plan, tmp_path):
    waiting = timing(1.2, 0).model_copy(update={"loop_time_ms": 61.0, "data_wait_share": share})
    page = render(
        [record("dense", "", 0, 17.0, 1.0), record("2:8", "2:8@0.5", 0, 18.0, timing=waiting)], plan, tmp_path
    )
    assert "Data wait" in page and f"{100 * share:.1f} %" in page
    assert ("up to 12% of the training loop of 2:8" in page) is is_starved
    with open(tmp_path / "results.csv", encoding="utf-8", newline="") as file:
        line = [line for line in csv.DictReader(file) if line["row"] == "2:8"][-1]
    assert (float(line["loop_time_ms"]), float(line["data_wait_share"])) == (61.0, share)


@pytest.mark.parametrize("compiled", [False, True])
def test_training_time_that_holds_compilation_says_so(compiled, records, plan, tmp_path):
    changed = [
        r.model_copy(update={"conditions": r.conditions.model_copy(update={"compile": compiled})}) for r in records[:2]
    ]
    page = render(changed, plan, tmp_path)
    assert ("Training s, with compilation" in page) is compiled


def test_the_decay_of_the_average_is_shown_with_its_warm_up(records, plan, tmp_path):
    def trained(record, **settings):
        training = {**record.config.get("training", {}), **settings}
        return record.model_copy(update={"config": {**record.config, "training": training}})

    page = render([trained(record, ema_decay=0.9999) for record in records[:2]], plan, tmp_path)
    assert "0.9999, from step 0 at most (1 + step) / (10 + step)" in page


@pytest.mark.full
def test_forty_five_cells_can_be_mailed(tmp_path, plan):
    routes = {"dense": "", **{f"{start}:{start + 4}": f"{start}:{start + 4}@0.5" for start in range(8)}}
    records = [record(row, routes[row], seed, 20.0) for row in routes for seed in range(5)]
    render(records, plan, tmp_path, pictures=pictures)
    assert (tmp_path / "index.html").stat().st_size < 450_000


@pytest.mark.full
def test_two_hundred_cells_can_still_be_mailed(tmp_path, plan):
    rows = {f"row {i}": f"{i % 8}:{8 + i % 4}@0.{1 + i // 8}" for i in range(40)}
    records = [record(row, routes, seed, 20.0) for row, routes in rows.items() for seed in range(5)]
    for one in records[::5]:
        write_grid(tmp_path, one, grid_png(photographs(128)))
    render(records, plan, tmp_path, pictures=pictures)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    samples = sum(map(len, re.findall('data:image/webp;base64,[^"]*"', page)))
    assert len(page) - samples < 1_000_000 and samples < 650_000
    assert len(shown(page)) == 40 and "left out to keep" not in page


def test_protocols_get_tables_and_verdicts_of_their_own(tmp_path, plan):
    biased = evaluation(1200, 18.0, "other").model_copy(update={"protocol_details": {"caution": "64 samples: biased"}})
    other = [record("2:8", "2:8@0.5", seed, 1.0, evaluations=[biased]) for seed in range(2)]
    page = render([record("dense", "", seed, 17.0) for seed in range(2)] + other, plan, tmp_path)
    assert 'id="group-1"' in page and 'id="group-2"' in page and "protocol other" in page
    assert len(re.findall(r'<p class="quality">', page)) == 2
    assert "<strong>Caution:</strong> 64 samples: biased" in page


@pytest.mark.parametrize(("iteration", "told"), [(600, "iteration 600"), (1200, "protocol other")])
def test_pictures_that_several_comparisons_have_are_told_apart(iteration, told, tmp_path, plan):
    made = []
    for depth, at, protocol in ((12, 1200, "one"), (8, iteration, "other")):
        for seed in range(2):
            row = record(f"dense {depth}", "", seed, 1.0, evaluations=[evaluation(at, 18.0 + seed, protocol)])
            made.append(row.model_copy(update={"backbone": f"DiT (depth {depth})"}))
    page = render(made, plan, tmp_path, pictures=pictures)
    titles = re.findall(r'<a href="#[^"]*">([^<]*)', page.partition("<nav")[2].partition("</nav>")[0])
    assert len({*titles}) == len(titles) and [title for title in titles if title.endswith(f", {told}")]


def test_rows_that_only_evaluate_have_no_decision_and_say_what_a_sample_costs(tmp_path, plan, capsys):
    def trained(name, routes, seed, at, **changes):
        return record(name, routes, seed, 17.0, evaluations=[evaluation(at, 17.0 + seed, "one")], **changes)

    def judged(budget, seed):
        made = trained(f"elit-{budget}", "2:8@0.75", seed, 1507, reference=f"elit-{seed}", sampling_macs=budget * 10**9)
        return made.model_copy(update={"config": made.config | {"evaluate": {"row": "elit"}}})

    own = [
        trained(name, routes, seed, 1200)
        for name, routes in {"dense": "", "tread": "2:8@0.5"}.items()
        for seed in (0, 1)
    ]
    records = [*own, *(judged(budget, seed) for budget in (2, 4) for seed in (0, 1))]
    page = render(records, plan, tmp_path)
    assert "elit-2" in page and "Sampling GMACs" in page
    print_comparison(Study(records), len(records))
    shown = capsys.readouterr().out
    assert shown.count("No decision") == 1 and "Sampling" in shown.partition("elit-2")[0] and "4.000" in shown


def test_rows_that_others_start_from_have_figures_and_no_verdict(tmp_path, plan):
    """They stand alone, since they were trained on other data."""

    def started(name, routes, seed):
        made = record(name, routes, seed, 17.0)
        start = {"training": {"start": {"row": "pretrained", "iteration": 1200, "run": None}}}
        return made.model_copy(update={"config": made.config | start})

    source = [record("pretrained", "", seed, 1.0, evaluations=[evaluation(1200, 18.0, "other")]) for seed in range(2)]
    rows = {"dense": "", "2:8": "2:8@0.5"}
    others = [started(name, routes, seed) for name, routes in rows.items() for seed in range(2)]
    page = render([*source, *others], plan, tmp_path)
    assert len(re.findall(r'<p class="quality">', page)) == 1
    assert "no row was compared" not in page and "pretrained" in page
    assert len(re.findall(r'<p class="quality">', render([*source, *others[:2]], plan, tmp_path))) == 1


def test_spatial_fid_has_a_column_where_some_cell_has_it_and_else_its_reason_beside_the_protocol(tmp_path, plan):
    reason = {"not_measured": {"sFID": "spatial features, and feature network digits-classifier has none"}}
    without = evaluation(1200, 18.0)
    without = without.model_copy(update={"protocol_details": without.protocol_details | reason})
    for value, is_measured in ((without, False), (without.model_copy(update={"sfid": 6.5}), True)):
        page = render([record("dense", "", seed, 1.0, evaluations=[value]) for seed in range(2)], plan, tmp_path)
        titles = page.partition('id="cells"')[2].partition("<thead>")[2].partition("</thead>")[0]
        assert ("sFID" in titles) is is_measured
        assert "spatial features, and feature network digits-classifier has none" in page


def test_several_architectures_get_a_table_each_and_no_ranking(tmp_path, plan):
    page = render(architectures(), plan, tmp_path, pictures=pictures)
    assert len(re.findall(r'<details id="group-\d"', page)) == 6
    assert page.index("Gain in FID") < page.index("Rows of each architecture")
    assert (tmp_path / "figures" / "gain.svg").is_file()
    assert len(page) < 600_000


def test_conditions_have_no_empty_entries_and_at_most_six_digits(records, plan, tmp_path):
    numerics = {**plan["numerics"], "matmul_relative_error": 0.00000032123456789, "device_name": ""}
    start = {"start": {"row": "pretrained", "iteration": 1200, "run": None}}
    started = [one.model_copy(update={"config": one.config | {"training": start}}) for one in records[:2]]
    page = render(started, {**plan, "numerics": numerics}, tmp_path)
    conditions = page.partition('id="conditions"')[2].partition("</section>")[0]
    assert "<dt>start</dt><dd>iteration=1200, row=pretrained</dd>" in conditions
    assert "<dt>matmul relative error</dt><dd>3.21235e-07</dd>" in conditions
    assert not re.search("<dd>(–|)</dd>", conditions) and "device name" not in conditions


def of_depth(depth):
    """A comparison at equal cost, by networks of a depth."""
    backbone = f"DiT (depth {depth}, hidden 64, heads 4, patch 2)"
    chosen = [one for one in equal_cost(3, 4) if one.row in ("dense", "2:8")]
    return [
        one.model_copy(update={"backbone": backbone, "row": f"{one.row} {depth}", "cell": f"{one.cell} {depth}"})
        for one in chosen
    ]


def test_in_a_terminal_each_of_several_decisions_names_its_architecture(capsys):
    print_comparison(Study(made := of_depth(12)), len(made))
    assert "\nDiT" not in capsys.readouterr().out
    print_comparison(Study(made := [*of_depth(12), *of_depth(6)]), len(made))
    assert {line.partition(":")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("DiT")} == {
        "DiT (depth 12)", "DiT (depth 6)"
    }  # fmt: skip


def test_no_heading_of_a_page_with_several_decisions_leaves_out_a_level(plan, tmp_path):
    made = [*of_depth(12), *of_depth(6)]
    for place, one in enumerate(made):
        training = one.config["training"]
        if "budget" in training:
            training = training | {"budget": {"macs_of": one.row.replace("2:8", "dense")}}
            made[place] = one.model_copy(update={"config": one.config | {"training": training}})
    page = render(made, {**plan, "cells": [one.cell for one in made]}, tmp_path)
    assert page.count("What the decision rests on") == 2
    levels = [int(level) for level in re.findall("<h([1-6])", page)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))


def test_the_comparison_fits_a_terminal_of_100_columns_and_ends_with_the_decision(records, capsys):
    print_comparison(Study(records), len(records))
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 100
    assert all(word in "".join(printed[:3]) for word in ("Δ FID at equal", "iterations", "Speed-up", "GMACs"))
    assert printed[-1] == "No decision: no route was compared with dense at equal training MACs."
