"""What a user installs: the wheel holds what the commands need, and nothing else."""

from __future__ import annotations

import os
import re
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
    for name in ("backbones", "reports"):  # the user's own
        (tmp_path / f"{name}.py").write_text("raise ImportError('not ours')")
    command = [sys.executable, "-P", "-m", "tread_bench", "run", "toy.yaml", "--out", "run"]
    environment = {**os.environ, "PYTHONPATH": f"{unpacked}{os.pathsep}{tmp_path}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "index.html").is_file()


def test_every_direct_dependency_has_a_version_known_to_work() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tested = (extras[name] for name in ("test", "dev", "gpu", "hf", "lmdb", "rwkv", "text", "vae"))
    wanted = [*project["dependencies"], *chain.from_iterable(tested)]
    names = {re.split(r"[<>=\[; ]", requirement)[0].lower().replace("_", "-") for requirement in wanted}
    pinned = {line.partition("==")[0] for line in (CHECKOUT / "constraints.txt").read_text().splitlines()}
    assert names - {"tread-bench"} <= pinned
