"""The workflows: valid, with pinned actions and few rights."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).parents[1]
WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))
SAME_REPOSITORY = "github.event.pull_request.head.repo.full_name == github.repository"

pytestmark = pytest.mark.parametrize("path", WORKFLOWS, ids=[path.stem for path in WORKFLOWS])


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_a_workflow_is_one_by_githubs_schema(path: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_workflow_may_only_read_runs_pinned_actions_and_keeps_no_token_in_the_checkout(path: Path) -> None:
    workflow = read(path)
    jobs = workflow["jobs"].values()
    assert workflow["permissions"] == {"contents": "read"} and not any("permissions" in job for job in jobs)
    used = [step for job in jobs for step in job["steps"] if "uses" in step]
    assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"]) for step in used)
    checkouts = [step for step in used if step["uses"].startswith("actions/checkout@")]
    assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_a_fork_reaches_no_machine_of_ours_unasked(path: Path) -> None:
    workflow = read(path)
    assert "pull_request_target" not in workflow[True]  # YAML 1.1 reads the key `on` as true
    own = [job for job in workflow["jobs"].values() if "self-hosted" in job["runs-on"]]
    assert all("vars.GPU_RUNNER != ''" in job["if"] for job in own)
    assert all(SAME_REPOSITORY in job["if"] for job in own) or "pull_request" not in workflow[True]
    assert bool(own) == path.stem.startswith("gpu")
