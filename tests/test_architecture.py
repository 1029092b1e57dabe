"""The floors of docs/architecture.md: what imports what, and what stays light."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PACKAGES = ("tread_bench", "backbones", "reports")
LIGHT = (
    "tread_bench",
    "tread_bench.cli.app",
    "tread_bench.core.costs",
    "tread_bench.suite.plan",
    "tread_bench.suite.load",
    "tread_bench.runner.folder",
    "tread_bench.reports.page",
)
CONTRACTS = {
    contract["id"]: contract["name"]
    for contract in tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
HEAVY = ("torch", "torchvision", "timm", "torch_fidelity")


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts in pyproject.toml on the packages that stand in `folder`."""
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True, no_logo=True))"
    return run_python(code, folder)


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


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The packages and their contracts, to break."""
    for package in PACKAGES:
        shutil.copytree(CHECKOUT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_floors_hold() -> None:
    done = lint_imports(CHECKOUT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "statement", "contract"),
    [
        ("tread_bench/model/ops/__init__.py", "import tread_bench.cell.run", "floors"),
        ("tread_bench/core/routes.py", "import torch", "torch-free"),
        ("tread_bench/suite/plan.py", "def late():\n    import timm", "torch-free"),
        ("reports/__init__.py", "import torch", "torch-free"),
        ("reports/__init__.py", "import tread_bench.runner.runner", "reports"),
        ("tread_bench/cell/run.py", "import tread_bench.backbones.dit.network", "engine"),
        ("tread_bench/runner/runner.py", "import reports", "engine"),
        ("backbones/__init__.py", "import tread_bench.cell", "backbones"),
    ],
)
def test_an_import_across_the_floors_is_seen(copy: Path, file: str, statement: str, contract: str) -> None:
    with (copy / file).open("a") as source:
        source.write(f"\n{statement}\n")
    done = lint_imports(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{CONTRACTS[contract]} BROKEN" in " ".join(done.stdout.split())


def test_a_module_without_a_floor_is_seen(copy: Path) -> None:
    (copy / "tread_bench" / "homeless.py").touch()
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "homeless" in done.stdout


@pytest.mark.parametrize("module", LIGHT)
def test_importing_stays_light(module: str) -> None:
    assert heavy_imports(f"import {module}") == []


def test_listing_and_resolving_backbones_stays_light() -> None:
    statement = "import tread_bench.core.families as r; r.make_spec('DiT-S/2'); assert 'DiT' in r.families()"
    assert heavy_imports(statement) == []


def test_a_heavy_import_is_seen(copy: Path) -> None:
    with (copy / "tread_bench" / "__init__.py").open("a") as source:
        source.write("\nimport torch\n")
    assert "torch" in heavy_imports("import tread_bench", copy)
