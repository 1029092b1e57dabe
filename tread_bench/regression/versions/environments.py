"""Environments in which the two versions are installed, alike, with the packages that this program runs with."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

from tread_bench.core.errors import UserError


def checkout() -> Path:
    """The git checkout that this program runs from. Raises UserError where there is none, or no git."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "pyproject.toml").is_file() or not (root / ".git").exists():
        raise UserError(
            f"regress compares versions of a git checkout, and this program runs from {root}: "
            "run it from a checkout that is installed with `pip install -e .`"
        )
    if shutil.which("git") is None:
        raise UserError("regress reads the other version with git, and git is not on PATH: install git")
    return root


def commit_of(ref: str, root: Path) -> str:
    """Return the commit behind a git reference. Raises UserError."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"],
        cwd=root,
        capture_output=True,
        text=True,
    )
    if found.returncode:
        raise UserError(f"--against {ref}: git has no such commit in {root}; `git fetch` it, or name another")
    return found.stdout.strip()


def export(commit: str, root: Path, folder: Path) -> Path:
    """Write the files of a commit into `folder`; return it."""
    archive = subprocess.run(["git", "archive", commit], cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def build(source: Path, home: Path) -> Path:
    """Return the Python of a new environment that has `source` installed and everything else from this one.

    Raises:
        UserError: it cannot be installed, with pip's last lines.
    """
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(home)}))
    # Path lines of a .pth come after the environment's own packages, and do not activate editable installs.
    shared = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "shared.pth").write_text("\n".join(sorted(shared)) + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(source)]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"{source} cannot be installed:\n" + "\n".join(done.stderr.strip().splitlines()[-5:]))
    return python
