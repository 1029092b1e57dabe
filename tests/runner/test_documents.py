"""What the documents promise: links that lead somewhere, examples that work, the command that CI runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    path.relative_to(CHECKOUT).as_posix() for path in [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md")]
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def tread_bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tread_bench", *map(str, arguments)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files(document: str) -> None:
    file = CHECKOUT / document
    links = re.findall(r"\]\(([^)#\s]+)\)", file.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (file.parent / link).exists()]
    assert missing == []


def test_ci_runs_the_readme_s_test_command() -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.endswith("tox")]
    assert len(commands) == 1
    assert (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == commands[0]


def test_the_readme_s_suite_can_be_planned(tmp_path: Path) -> None:
    suite = tmp_path / "my_routes.yaml"
    suite.write_text(blocks("yaml")[0], encoding="utf-8")
    done = tread_bench("plan", suite)
    assert done.returncode == 0, done.stderr
    assert "2:8@0.5" in done.stdout


def test_the_readme_s_commands_exist() -> None:
    commands = sorted(set(re.findall(r"`tread-bench ([a-z]+)", README)))
    assert {"run", "plan", "profile", "report"} <= set(commands)
    unknown = [command for command in commands if tread_bench(command, "--help").returncode]
    assert unknown == []
