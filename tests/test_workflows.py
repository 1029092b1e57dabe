"""The workflows: valid, with pinned actions and few rights, and a single tox command behind each."""

from __future__ import annotations

import re
import subprocess
import sys
from configparser import ConfigParser
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


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def tox_calls(workflow: dict[Any, Any]) -> list[str]:
    """Lines that call tox, those of .ci/run among them."""
    lines = [line for step in steps(workflow) for line in step.get("run", "").splitlines()]
    script = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    every = [line for one in lines for line in (script if one == ".ci/run" else [one])]
    return [line for line in every if re.search(r"/tox( |$)", line)]


def test_a_workflow_is_one_by_githubs_schema(path: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_workflow_calls_tox_environments_that_exist(path: Path) -> None:
    workflow = read(path)
    calls = tox_calls(workflow)
    assert calls
    tox = ConfigParser(interpolation=None)
    tox.read(CHECKOUT / "tox.ini")
    named = [re.search(r"/tox -e (\S+)", call) for call in calls]
    assert all((f"testenv:{name[1]}" if name else "testenv") in tox for name in named)


def test_actions_are_pinned_to_commits(path: Path) -> None:
    used = [step["uses"] for step in steps(read(path)) if "uses" in step]
    assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in used)


def test_a_workflow_may_only_read_and_keeps_no_token_in_the_checkout(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in workflow["jobs"].values())
    checkouts = [step for step in steps(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_a_fork_reaches_no_machine_of_ours_unasked(path: Path) -> None:
    workflow = read(path)
    assert "pull_request_target" not in workflow[True]  # YAML 1.1 reads the key `on` as true
    own = [job for job in workflow["jobs"].values() if "self-hosted" in job["runs-on"]]
    assert all("vars.GPU_RUNNER != ''" in job["if"] for job in own)
    assert all(SAME_REPOSITORY in job["if"] for job in own) or "pull_request" not in workflow[True]
    assert bool(own) == path.stem.startswith("gpu")
