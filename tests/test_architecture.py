"""The floors of docs/architecture.md: what imports what, and what stays light."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import networkx as nx

CHECKOUT = Path(__file__).parents[1]
PACKAGE = CHECKOUT / "tread_bench"
DOCUMENT = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
LIGHT = (
    "tread_bench",
    "tread_bench.cli.app",
    "tread_bench.core.numbers.costs",
    "tread_bench.suite.plan",
    "tread_bench.suite.load",
    "tread_bench.runner.folder",
    "tread_bench.reports.page.run",
)
HEAVY = ("torch", "torchvision", "timm", "torch_fidelity")


def run_python(code: str) -> str:
    """What code prints in a fresh interpreter that finds the checkout first."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def heavy_imports(statement: str) -> list[str]:
    """The heavy packages that a fresh interpreter has loaded after `statement`."""
    report = f"import sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    return run_python(f"{statement}\n{report}").split()


def test_the_floors_hold() -> None:
    """The contracts in pyproject.toml."""
    run_python("from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True, no_logo=True))")


def test_what_a_room_names_above_it_as_text_stands_in_the_table() -> None:
    (floors,) = (one["layers"] for one in PROJECT["tool"]["importlinter"]["contracts"] if one["id"] == "floors")
    floor = {room: place for place, rooms in enumerate(floors) for room in re.findall(r"\w+", rooms)}
    found = []
    for room in floor:
        for path in (PACKAGE / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for named, rest in {*re.findall(r'"tread_bench\.(\w+)(\.[\w.]+:\w+)"', text)}:
                if named != room and floor[named] <= floor[room]:
                    found.append((str(path.relative_to(PACKAGE)), named + rest))
    table = re.findall(r"^\| `([\w/]+\.py)` \| `([\w.:]+)` \| .+ \|$", DOCUMENT, re.MULTILINE)
    assert sorted(table) == sorted(found)


def test_the_tree_names_every_room() -> None:
    tree = DOCUMENT.partition("## Tree")[2].partition("\n## ")[0]
    rooms = {file.parent.name for file in PACKAGE.glob("*/*.py")}
    assert len(rooms) > 10 and rooms <= {*re.findall(r"([\w-]+)/", tree)}


def test_no_module_imports_itself_in_a_circle() -> None:
    """Imports inside functions and for annotations count, and so does the package that a module's import runs first."""
    graph = grimp.build_graph("tread_bench", cache_dir=None)
    importing = nx.DiGraph()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            parts = imported.split(".")
            packages = (".".join(parts[:n]) for n in range(1, len(parts)))
            run_first = [package for package in packages if not f"{module}.".startswith(f"{package}.")]
            importing.add_edges_from((module, one) for one in (imported, *run_first))
    assert [sorted(circle) for circle in nx.strongly_connected_components(importing) if len(circle) > 1] == []


def test_nothing_imports_the_folders_at_the_top() -> None:
    """A second copy of a module fails `isinstance` and registers its operators twice."""
    at_the_top = re.compile(r"^\s*(?:from|import) (?:backbones|reports|suites)\b", re.MULTILINE)
    folders = [CHECKOUT / name for name in ("tread_bench", "backbones", "reports", "tests", "benchmarks")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert [path for path in files if at_the_top.search(path.read_text(encoding="utf-8"))] == []


def test_importing_stays_light() -> None:
    assert heavy_imports(f"import {', '.join(LIGHT)}") == []


def test_planning_a_study_with_a_decoder_of_its_own_stays_light() -> None:
    statement = """
import contextlib, io, sys
from tread_bench.cli.app import app
sys.argv = ["tread-bench", "plan", "imagenet256/long_training", "--json"]
with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
    app()
assert '"maskdit"' in printed.getvalue()
"""
    heavy_imports(statement)  # the first time, costs are counted
    assert heavy_imports(statement) == []


def test_nobody_compares_the_name_of_what_plugs_in() -> None:
    """A trait of its description says what others need to know; names that are common words are not looked for."""
    groups = PROJECT["project"]["entry-points"].items()
    names = {name for group, points in groups if group != "tread_bench.backbones" for name in points}
    names -= {"none", "blocks", "columns", "random", "rows"}
    found = []
    for path in (path for room in PACKAGE.iterdir() for path in room.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                sides = (node.left, *node.comparators)
                compared = [part for side in sides for part in getattr(side, "elts", [side])]
                found += [(path.name, one.value) for one in compared if isinstance(one, ast.Constant)]
            elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant):
                found.append((path.name, node.value.value))
    assert [one for one in found if one[1] in names] == []
