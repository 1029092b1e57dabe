"""What a user installs: the wheel holds what the commands need, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, unpacked as an installation is."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=CHECKOUT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def files_of(folder: Path, pattern: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob(pattern) if path.is_file()}


def test_the_wheel_holds_three_packages_and_no_more(unpacked: Path) -> None:
    folders = {path.name for path in unpacked.iterdir() if path.suffix != ".dist-info"}
    assert folders == {"tread_bench", "backbones", "reports"}


@pytest.mark.parametrize("package", ["tread_bench", "backbones", "reports"])
def test_every_file_of_a_package_is_in_the_wheel(unpacked: Path, package: str) -> None:
    here = {name for name in files_of(CHECKOUT / package, "*") if "__pycache__" not in name}
    there = {name for name in files_of(unpacked / package, "*") if not name.startswith("suites/")}
    assert there == here
    assert "py.typed" in there


def test_the_wheel_holds_every_suite(unpacked: Path) -> None:
    suites = files_of(unpacked / "tread_bench" / "suites", "*")
    assert suites == files_of(CHECKOUT / "suites", "*")
    assert {"route_placement.yaml", "smoke.yaml"} <= suites


def test_the_wheel_holds_the_feature_network_and_the_page(unpacked: Path) -> None:
    weights = unpacked / "tread_bench" / "measure" / "weights"
    assert sum(path.stat().st_size for path in weights.glob("*.safetensors")) < 100_000
    assert files_of(weights, "*.safetensors")
    assert files_of(unpacked / "reports" / "templates", "*.html*")


def test_the_command_works_from_the_wheel(unpacked: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    command = [sys.executable, "-m", "tread_bench", "list", "suites"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "route_placement" in done.stdout


def test_every_direct_dependency_has_a_version_known_to_work() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["test"], *extras["dev"], *extras["gpu"], *extras["rwkv"]]
    names = {re.split(r"[<>=\[; ]", requirement)[0].lower().replace("_", "-") for requirement in wanted}
    pinned = {line.partition("==")[0] for line in (CHECKOUT / "constraints.txt").read_text().splitlines()}
    assert names - {"tread-bench"} <= pinned
