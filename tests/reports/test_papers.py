"""What `report --tables` writes for papers: tables as CSV, Markdown and LaTeX, figures as SVG, PNG and PDF."""

from __future__ import annotations

import csv
import io
import random
import re
import shutil
from xml.etree import ElementTree

import pytest
from PIL import Image
from synthetic_records import DRAWN, HOSTILE, record, study
from synthetic_runs import write_run

from tests.command_line import cpu_seconds, tread_bench, tread_bench_anew
from tests.yardstick import slowness
from tread_bench.core.stored.destinations import MARKER
from tread_bench.reports.differences import ITERATIONS
from tread_bench.reports.study import Study
from tread_bench.reports.tables import FORMATS, Entry, Table, as_csv, as_latex, as_markdown, latex


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run folder, and an export of its report."""
    folder = tmp_path_factory.mktemp("run")
    write_run(folder / "run", study())
    done = tread_bench("report", "run", "--tables", "paper", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run", folder / "paper"


def test_every_table_and_figure_is_there_in_every_format(made):
    run, paper = made
    tables = {f"{name}.{kind}" for name in ("comparison", *DRAWN) for kind in ("csv", "md", "tex")}
    figures = {f"{name}.{kind}" for name in DRAWN for kind in ("svg", "png", "pdf")}
    assert {path.name for path in paper.iterdir()} == tables | figures | {MARKER}
    assert {path.name for path in (run / "figures").iterdir()} == {f"{name}.svg" for name in DRAWN}


def test_figures_are_what_their_endings_say(made):
    run, paper = made
    for name in DRAWN:
        assert (paper / f"{name}.svg").read_bytes() == (run / "figures" / f"{name}.svg").read_bytes()
        width = float(ElementTree.parse(paper / f"{name}.svg").getroot().get("width").removesuffix("pt"))
        with Image.open(paper / f"{name}.png") as image:
            assert image.width == pytest.approx(width / 72 * 160, abs=1)
        pdf = (paper / f"{name}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF-") and b"/Type3" not in pdf and b"CreationDate" not in pdf


def test_a_table_holds_every_digit(made):
    with open(made[1] / "comparison.csv", encoding="utf-8", newline="") as file:
        lines = {line["Row"]: line for line in csv.DictReader(file)}
    rows = {row.short_label: row for row in Study(study()).rows}
    assert lines.keys() == rows.keys()
    for label, row in rows.items():
        difference = row.difference(ITERATIONS)
        assert float(lines[label]["FID"]) == row.fid.mean
        assert (float(lines[label]["FID, low"]), float(lines[label]["FID, high"])) == row.fid.bounds
        assert lines[label]["Δ FID, low"] == (repr(difference.low) if difference else "")


@pytest.mark.parametrize("place", ["run", "run/figures", "run/paper", "file"])
def test_an_export_has_a_folder_of_its_own(made, tmp_path, place):
    shutil.copytree(made[0], tmp_path / "run")
    (tmp_path / "file").touch()
    before = sorted(path.name for path in tmp_path.rglob("*"))
    done = tread_bench("report", "run", "--tables", place, cwd=tmp_path)
    assert done.returncode == 2 and f"--tables {place}" in done.stderr and "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_run_that_is_not_there_leaves_no_folder_for_its_export(tmp_path):
    done = tread_bench("report", "nowhere", "--tables", "paper", cwd=tmp_path)
    assert done.returncode == 2 and "nowhere" in done.stderr and not list(tmp_path.iterdir())


def test_the_tables_of_a_smoke_run_say_so(tmp_path):
    bare = {"timing": None, "similarity": None, "gradient_norms": None}
    cells = [record(row, routes, 0, 17.0, **bare) for row, routes in (("dense", ""), ("2:8", "2:8@0.5"))]
    write_run(tmp_path / "run", cells, {"smoke": True})
    assert tread_bench("report", "run", "--tables", "paper", cwd=tmp_path).returncode == 0
    for kind in FORMATS:
        tables = sorted((tmp_path / "paper").glob(f"*.{kind}"))
        assert tables and all("(smoke run)" in path.read_text(encoding="utf-8") for path in tables)


@pytest.mark.full
def test_a_thousand_cells_are_rendered_in_ten_seconds(tmp_path):
    """Of processor time, on a quiet machine: reading the records, and starting the program, included."""
    records = []
    for place in range(10):
        routes = f"{place % 5}:{place % 5 + 4}@0.5" if place else ""
        for seed in range(100):
            records.append(record(f"row {place}", routes, seed, 17 + 0.1 * place, 1 + 0.01 * place))
    write_run(tmp_path / "run", records)
    before = cpu_seconds()
    assert tread_bench_anew("report", tmp_path / "run").returncode == 0
    assert cpu_seconds() - before < 10 * slowness()


# Any text in any format

CHARACTERS = "\\&%$#_{}[]~^<>|*`'\"-+=@!()Δ−–×→≤’ \n\ta1é名"


def texts(count=300):
    rng = random.Random(16)
    return ["".join(rng.choices(CHARACTERS, k=rng.randrange(1, 9))) for _ in range(count)]


def table_of(names):
    fid = Entry("1.50", "1.0 to 2.0", 1.5, (1.0, 2.0))
    return Table("t", HOSTILE, ("Row", "FID & more"), [[Entry(name), fid] for name in names])


def test_a_table_of_any_text_has_as_many_lines_and_columns_as_it_says():
    table = table_of(texts())
    lines = list(csv.reader(io.StringIO(as_csv(table))))
    assert lines[0] == ["tread-bench table", "Row", "FID & more", "FID & more, low", "FID & more, high"]
    assert len(lines) == 301 and {len(line) for line in lines} == {5}
    assert {tuple(line[2:]) for line in lines[1:]} == {("1.5", "1.0", "2.0")}
    assert not any(re.match("[=@]|[+-](?![0-9]+$)", cell) for line in lines for cell in line)
    shown = [line for line in as_markdown(table).splitlines() if line.startswith("|")]
    assert len(shown) == 302 and {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in shown} == {3}
    body = as_latex(table).partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    assert body.count("\\\\\n") == 300 == len(body.splitlines())
    assert all(len(re.findall(r"(?<!\\)&", line)) == 1 for line in body.splitlines())


def test_latex_reads_any_text_as_text():
    """Braces are balanced, nothing is a command but those for characters, and mathematics begins and ends."""
    known = re.compile(r"\\(text(backslash|ascii\w+|bar|less|greater|quotedbl)|Delta|times|to|le)")
    for text in texts():
        plain = re.sub(r"\\[&%$#_{}]", "", latex(text))
        assert plain.count("{") == plain.count("}") and plain.count("$") % 2 == 0, text
        assert all(map(known.fullmatch, re.findall(r"\\[a-zA-Z]+|\\.", plain))), text
        assert not re.search(r"(?<!\{)[\[\]*]|[&%#_~^]|\n", plain), text


def test_numbers_without_a_value_are_read_as_numbers():
    entries = [Entry(text) for text in ("−2.40", "1,234.5", "+3", "–", "2:8@0.5", "=1+1")]
    (line,) = list(csv.reader(io.StringIO(as_csv(Table("t", "T", list("abcdef"), [entries])))))[1:]
    assert line[1:] == ["-2.40", "1234.5", "3", "", "2:8@0.5", "'=1+1"]
