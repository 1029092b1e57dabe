"""What a user installs: the wheel holds what the commands need, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest

from tests.toy_suite import toy_suite, write_suite

CHECKOUT = Path(__file__).parents[1]
PLUGIN = CHECKOUT / "tests" / "plugin" / "backbone"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the sdist of this checkout, unpacked as an installation is."""
    folder = tmp_path_factory.mktemp("wheel")
    build(CHECKOUT, "sdist", folder)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    build(folder / sdist.name.removesuffix(".tar.gz"), "wheel", folder)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def build(checkout: Path, target: str, into: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)


def files_of(folder: Path) -> set[str]:
    """Files below a folder; links to folders are followed."""
    found = (Path(below) / name for below, _, names in os.walk(folder, followlinks=True) for name in names)
    return {str(path.relative_to(folder)) for path in found if "__pycache__" not in path.parts}


def test_the_wheel_holds_one_package_and_every_file_of_it(unpacked: Path) -> None:
    assert {path.name for path in unpacked.iterdir() if path.suffix != ".dist-info"} == {"tread_bench"}
    here = files_of(CHECKOUT / "tread_bench")
    assert files_of(unpacked / "tread_bench") == here
    linked = {"suites/route_placement.yaml", "backbones/dit/family.py", "reports/page/templates/macros.html.j2"}
    assert {"py.typed", *linked} <= here


def test_a_run_from_the_wheel_ends_with_its_page(unpacked: Path, tmp_path: Path) -> None:
    """In a folder without any of the checkout's, which the tests' own Python finds on its path."""
    write_suite(tmp_path, toy_suite(2, 1, seeds=1, pairs=0))
    done = run_in(tmp_path, unpacked, "-P", "-m", "tread_bench", "run", "toy.yaml", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "index.html").is_file()


@pytest.mark.full
def test_a_plug_in_works_beside_the_wheel_in_a_folder_with_its_own_backbones(unpacked: Path, tmp_path: Path) -> None:
    site, mine = tmp_path / "site", tmp_path / "mine"
    shutil.copytree(unpacked, site)
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run([*command, str(site), str(PLUGIN)], check=True, capture_output=True)
    for name in ("backbones", "reports"):
        (mine / name).mkdir(parents=True)
        (mine / name / "__init__.py").write_text("raise ImportError('not ours')\n")
    listed = run_in(mine, site, "-m", "tread_bench", "list", "backbones", "--json")
    assert listed.returncode == 0, listed.stderr
    assert {"DiT", "Snake"} <= {backbone["family"] for backbone in json.loads(listed.stdout)}
    done = run_in(mine, site, "-m", "tread_bench", "plan", str(PLUGIN / "snake.yaml"))
    assert done.returncode == 0, done.stderr


def run_in(folder: Path, site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a folder, with the packages of `site` first."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)


def test_every_direct_dependency_has_a_version_known_to_work() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tested = (extras[name] for name in ("test", "dev", "gpu", "hf", "lmdb", "rwkv", "text", "vae"))
    wanted = [*project["dependencies"], *chain.from_iterable(tested)]
    names = {re.split(r"[<>=\[; ]", requirement)[0].lower().replace("_", "-") for requirement in wanted}
    pinned = {line.partition("==")[0] for line in (CHECKOUT / "constraints.txt").read_text().splitlines()}
    assert names - {"tread-bench"} <= pinned
