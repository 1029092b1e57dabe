"""The floors of docs/architecture.md: what imports what, and what stays light."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import grimp
import networkx as nx

from tread_bench.core.describe.data_sources import data_sources, text_encoders
from tread_bench.core.describe.guidance import guidance_rules
from tread_bench.core.describe.methods import losses, methods
from tread_bench.core.describe.metrics import extractors, known_figures, metrics
from tread_bench.core.describe.mixers import mixers
from tread_bench.core.describe.objectives import objectives, samplers
from tread_bench.core.describe.selectors import selectors

CHECKOUT = Path(__file__).parents[1]
ROOMS = ("core", "suite", "runner", "regression", "model", "diffusion", "data", "measure", "cell", "services", "cli")
FILES = ("__init__.py", "__init__.pyi", "__main__.py", "api.py", "contract.py", "py.typed")
AT_THE_ROOT = {*FILES, "backbones", "reports", "suites", *ROOMS}
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


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that finds the packages of `folder` first."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def heavy_imports(statement: str, folder: Path = CHECKOUT) -> list[str]:
    """The heavy packages that a fresh interpreter has loaded after `statement`."""
    report = f"import sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = run_python(f"{statement}\n{report}", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_floors_hold() -> None:
    """The contracts in pyproject.toml."""
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True, no_logo=True))"
    done = run_python(code, CHECKOUT)
    assert done.returncode == 0, done.stdout + done.stderr


FLOORS = (
    "core",
    "suite",
    "runner",
    "regression",
    "model data backbones",
    "diffusion reports",
    "measure",
    "cell",
    "services",
    "cli",
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms.split()}
NAMED_AS_TEXT = re.compile(r"tread_bench\.(\w+)(\.[\w.]+:\w+)")
ROW = re.compile(r"^\| `([\w/]+\.py)` \| `([\w.:]+)` \| .+ \|$", re.MULTILINE)


def named_above(path: Path, room: str) -> set[str]:
    """What a file names as text of rooms that are not beneath its own."""
    texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    named = (NAMED_AS_TEXT.fullmatch(text) for text in texts if isinstance(text, str))
    return {one[1] + one[2] for one in named if one and one[1] != room and FLOOR[one[1]] >= FLOOR[room]}


def test_what_a_room_names_above_it_as_text_stands_in_the_table() -> None:
    package = CHECKOUT / "tread_bench"
    files = {path: path.relative_to(package) for room in FLOOR for path in (package / room).rglob("*.py")}
    found = {(str(file), text) for path, file in files.items() for text in named_above(path, file.parts[0])}
    table = ROW.findall((CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert sorted(table) == sorted(found)


def test_the_directory_listing_is_the_table_of_contents() -> None:
    files = (path.relative_to(CHECKOUT) for path in (CHECKOUT / "tread_bench").rglob("*") if path.is_file())
    there = {path.parts[1] for path in files if "__pycache__" not in path.parts} | {"backbones", "reports", "suites"}
    assert there == AT_THE_ROOT


def test_rooms_say_what_belongs_there_and_packages_import_nothing() -> None:
    public = {CHECKOUT / "tread_bench" / "__init__.py"}
    public |= {CHECKOUT / "reports" / "figures" / "__init__.py"}  # Matplotlib comes first, whatever its settings are
    folders = [CHECKOUT / folder for folder in ("tread_bench", "backbones", "reports")]
    for path in {path for folder in folders for path in folder.rglob("__init__.py")} - public:
        statements = ast.parse(path.read_text()).body
        assert all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in statements), path
        assert statements or path.parent.parent.name != "tread_bench", f"{path} does not say what belongs there"


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
    found = []
    folders = ("tread_bench", "backbones", "reports", "tests", "benchmarks")
    for path in (path for folder in folders for path in (CHECKOUT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found += [(path.name, name) for name in names if name.split(".")[0] in ("backbones", "reports", "suites")]
    assert found == []


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


# Modules that may compare these names: none but a plug-in's own folder, where there is no need to.
_PLUGGED_IN = {*methods(), *losses(), *objectives(), *guidance_rules(), *samplers(), *selectors(), *data_sources()}
_PLUGGED_IN |= {*metrics(), *known_figures(), *extractors(), *text_encoders(), *mixers()}
_COMMON = {"none": "guidance", **dict.fromkeys(("blocks", "columns", "random", "rows"), "selector")}  # words of others


def _compared_names(path: Path) -> list[str]:
    """Names of what plugs in that code compares something with, by `==`, `in` or `match`, or by a constant of them.

    A name that is a common word counts where what is compared with it is called by its kind.
    """
    found = []
    module = ast.parse(path.read_text(encoding="utf-8"))
    values: dict[str, ast.expr] = {}  # of the module's constants
    for statement in module.body:
        if isinstance(statement, ast.Assign):
            values |= {one.id: statement.value for one in statement.targets if isinstance(one, ast.Name)}
    for node in ast.walk(module):
        match node:
            case ast.Compare():
                compared, context = [node.left, *node.comparators], ast.unparse(node)
                compared = [values.get(one.id, one) if isinstance(one, ast.Name) else one for one in compared]
            case ast.Match():
                compared = [one.value for one in ast.walk(node) if isinstance(one, ast.MatchValue)]
                context = ast.unparse(node.subject)
            case _:
                continue
        literal = [one for one in compared if isinstance(one, ast.Constant | ast.Tuple | ast.List | ast.Set)]
        constants = [part.value for one in literal for part in ast.walk(one) if isinstance(part, ast.Constant)]
        names = [value for value in constants if isinstance(value, str) and value in _PLUGGED_IN]
        found += [name for name in names if _COMMON.get(name, "") in context]
    return found


def _code() -> list[Path]:
    links = [CHECKOUT / "tread_bench" / name for name in ("backbones", "reports", "suites")]
    found = [path for folder in ("tread_bench", "backbones", "reports") for path in (CHECKOUT / folder).rglob("*.py")]
    return [path for path in found if not any(path.is_relative_to(link) for link in links)]


def test_nobody_compares_the_name_of_what_plugs_in() -> None:
    """A trait of its description says what others need to know; `core/config` names the defaults."""
    assert {str(path): found for path in _code() if (found := _compared_names(path))} == {}
