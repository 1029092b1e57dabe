"""What is derived from a run's records is made again by the same command, whatever of it is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tread_bench.cli.app import app


def again(suite: Path, out: Path) -> str:
    done = CliRunner().invoke(app, ["run", str(suite), "--out", str(out)])
    assert done.exit_code == 0, done.output
    return done.stdout


def derived(out: Path) -> dict[str, bytes]:
    """All that a run folder holds beside its plan and its cells."""
    files = [path for path in out.rglob("*") if path.is_file() and not path.name.startswith(".")]
    found = {str(path.relative_to(out)): path.read_bytes() for path in files}
    return {name: text for name, text in found.items() if name != "plan.json" and not name.startswith("cells/")}


@pytest.mark.parametrize(
    ("kind", "harm"),
    [
        ("suite.yaml", "missing"),
        ("suite.yaml", "older"),
        ("records.jsonl", "empty"),
        ("results.csv", "older"),
        ("index.html", "missing"),
        ("figures/*.svg", "empty"),
    ],
)
def test_what_is_missing_empty_or_older_than_the_records_is_made_again(toy, toy_run, kind, harm):
    before = derived(toy_run)
    harmed = sorted(toy_run.glob(kind))[-1]
    if harm == "missing":
        harmed.unlink()
    else:
        harmed.write_bytes(b"" if harm == "empty" else b"of an earlier state")
        os.utime(harmed, (0, 0) if harm == "older" else None)
    told = again(toy, toy_run)
    assert derived(toy_run) == before
    if kind != "suite.yaml":
        assert "made again" in told and str(harmed.relative_to(toy_run)) in told
