"""What the documents promise: links and paths that lead somewhere, examples that work, the command that CI runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import tread_bench

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    path.relative_to(CHECKOUT).as_posix() for path in [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")]
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def broken_links(file: Path) -> list[str]:
    """Relative links of a Markdown file to no file, or to no heading of one."""
    links = re.findall(r"\]\(([^)\s]+)\)|(?:href|src|srcset)=\"([^\"\s]+)\"", prose(file))
    found = (markdown or html for markdown, html in links)
    return [link for link in found if "://" not in link and not leads_somewhere(file, link)]


def leads_somewhere(file: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = file.parent / path if path else file
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(file: Path) -> set[str]:
    """Anchors that GitHub gives to the headings of a file, each heading there once."""
    headings = re.findall(r"^#+ (.+)$", prose(file), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def prose(file: Path) -> str:
    """The text of a Markdown file without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    assert broken_links(CHECKOUT / document) == []


FOLDERS = ("backbones", "benchmarks", "docs", "reports", "suites", "tests", "tread_bench")


def gone(file: Path) -> list[str]:
    """Paths in backticks, from a folder of the checkout on, that lead nowhere; a word in capitals stands for any."""
    named = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", prose(file))
    return [path for path in named if not any(CHECKOUT.glob(re.sub(r"\b[A-Z]+\b", "*", path)))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_lead_somewhere(document: str) -> None:
    assert gone(CHECKOUT / document) == []


def test_ci_runs_the_readme_s_test_command() -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.endswith("tox")]
    assert len(commands) == 1
    script = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert commands[0] in script and "  .venv/bin/tox -e full" in script


def table_under(heading: str, text: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_readme_s_answer_is_that_of_the_results() -> None:
    results = (CHECKOUT / "docs" / "results.md").read_text(encoding="utf-8")
    found = {(at_macs, at_time) for *_, at_macs, at_time, _ in table_under("Where to route, at equal cost", results)}
    shown = [(at_macs, at_time) for _, at_macs, at_time in table_under("Does routing pay?", README)]
    assert len(shown) == 3
    assert set(shown) <= found


def planned(folder: Path, *arguments: object) -> dict[str, Any]:
    done = tread_bench("plan", *arguments, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def test_the_readme_s_suite_compares_at_equal_macs_and_has_a_control(tmp_path: Path) -> None:
    (shown,) = blocks("yaml")
    suite = tmp_path / "my_routes.yaml"
    suite.write_text(shown, encoding="utf-8")
    dense, *others = planned(tmp_path, suite)["rows"]
    assert [row["routes"] for row in others] == ["2:8@0.5", "0:8@0.5", ""]
    assert all(row["training_macs"] == pytest.approx(dense["training_macs"], rel=0.03) for row in others)
    assert others[-1]["params"] < dense["params"]


def test_the_readme_s_figures_of_a_gpu_are_those_of_the_plan(tmp_path: Path) -> None:
    for suite, _, cells, hours, states, disk in table_under("On a GPU", README):
        step_time = re.search(r"(\d+) at (\d+) ms", hours.replace(",", ""))
        plan = planned(tmp_path, suite.strip("`"), *(["--step-time", step_time[2]] if step_time else []))
        assert int(cells.split(",")[0]) == len(plan["cells"])
        assert float(states.removesuffix(" GB")) == pytest.approx(20 * plan["rows"][0]["params"] / 1e9, abs=0.05)
        assert float(disk.removesuffix(" GiB")) == pytest.approx(disk_of(plan), abs=0.5)
        assert not step_time or int(step_time[1]) == round(plan["device_hours"])


def disk_of(plan: dict[str, Any]) -> float:
    """GiB that a run takes on disk."""
    return float(sum(row["disk_bytes"] for row in plan["rows"]) / 2**30)


def test_the_readme_says_what_the_first_run_takes(tmp_path: Path) -> None:
    _, (_, _, disk) = table_under("Run it", README)
    assert disk == f"{disk_of(planned(tmp_path, 'route_placement')):.1f} GiB"


def test_the_readme_s_commands_exist() -> None:
    commands = sorted(set(re.findall(r"`tread-bench ([a-z]+)", README)))
    assert {"run", "plan", "profile", "report"} <= set(commands)
    unknown = [command for command in commands if tread_bench(command, "--help").returncode]
    assert unknown == []
