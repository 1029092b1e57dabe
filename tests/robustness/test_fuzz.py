"""Ten thousand damaged, hostile and random suite files: a plan, or mistakes with their places, and never late."""

from __future__ import annotations

import json
import random
import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from hostile_suites import DOCUMENTS, FRAGMENTS, GOOD, HOSTILE_VALUES, KEYS, mutated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from large_suites import LARGE

from tests.yardstick import slowness
from tread_bench.cli.show.plan import show_plan
from tread_bench.core.problems import SuiteError
from tread_bench.runner.folder import RunFolder
from tread_bench.suite.load import load_plan, shipped_suites

LIMIT_S = 1.0  # of processor time for one file, where `slowness` is 1
LONGEST = 2000  # characters of one problem
COUNTS = {"structured documents": 4000, "fragments of YAML": 2000, "shipped suites, damaged": 4000}
SHARE = pytest.mark.parametrize(
    "share", [10, pytest.param(1, marks=pytest.mark.endurance)], ids=["a tenth of them", "all of them"]
)
ANY = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))


@dataclass
class Tally:
    """What came of the files of one kind."""

    path: Path
    plans: int = 0
    refused: int = 0
    slowest: tuple[float, bytes] = (0.0, b"")

    def load(self, content: bytes, overrides: tuple[str, ...] = ()) -> None:
        """Load the file; hold the laws."""
        self.path.write_bytes(content)
        seconds, found = timed(self.path, overrides)
        if seconds >= LIMIT_S:  # a slow file is slow twice, a busy machine need not be
            seconds = min(seconds, timed(self.path, overrides)[0])
        self.slowest = max(self.slowest, (seconds, content))
        assert seconds < LIMIT_S or seconds < LIMIT_S * slowness(), f"{seconds:.2f} s"
        if isinstance(found, SuiteError):
            check_problems(self.path, content, found.problems, overrides)
            self.refused += 1
        else:
            check_plan(found)
            self.plans += 1

    def __str__(self) -> str:
        seconds, content = self.slowest
        total = self.plans + self.refused
        return f"{total} files: {self.plans} plans, {self.refused} refused; slowest {seconds:.3f} s ({content[-40:]!r})"


def timed(path, overrides):
    """Processor seconds, and the plan or the mistakes."""
    start = time.process_time()
    try:
        found = load_plan(path, overrides)
    except SuiteError as error:
        found = error
    return time.process_time() - start, found


def check_problems(path, content, problems, overrides):
    """Each has one line, a place inside the file or an override, and nothing that could steer a terminal."""
    assert problems
    text = content.decode("utf-8-sig", "replace")
    lines = max(len(text.splitlines()), text.count("\n")) + 1
    for problem in problems:
        assert problem.place and problem.message
        shown = str(problem).removeprefix(problem.place.source)
        assert shown.replace("\n", "").isprintable() and len(shown) < LONGEST, shown[:LONGEST]
        if problem.place.source == str(path):
            assert 1 <= problem.place.line <= lines and problem.place.column >= 1, (problem, lines)
        else:
            assert problem.place.source in {f"--set {override}" for override in overrides}


def check_plan(plan):
    """Every cell has a folder of its own, inside the run's."""
    root = (Path("/runs") / plan.suite.name).resolve()
    folders = {RunFolder(root).cell(cell.id).resolve() for cell in plan.cells}
    assert root.parent == Path("/runs") and {folder.parent for folder in folders} == {root / "cells"}
    assert len(folders) == len(plan.cells) and all(re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", c.id) for c in plan.cells)
    assert json.dumps([cell.cell.model_dump(mode="json") for cell in plan.cells[:3]], allow_nan=False)


@pytest.fixture
def tally(tmp_path):
    tally = Tally(tmp_path / "fuzz.yaml")
    yield tally
    print(tally)


@pytest.mark.slow
@SHARE
def test_structured_documents_give_a_plan_or_located_mistakes(tally, share):
    override = st.tuples(st.sampled_from(KEYS), HOSTILE_VALUES).map(lambda pair: f"{pair[0]}={json.dumps(pair[1])}")

    @settings(ANY, max_examples=COUNTS["structured documents"] // share)
    @given(DOCUMENTS, st.sampled_from(WRITERS), st.sampled_from(ENCODINGS), st.lists(override, max_size=1))
    def check(document, write, encode, overrides):
        tally.load(encode(write(document)), tuple(overrides))

    check()
    assert tally.plans and tally.refused


WRITERS = (
    lambda document: yaml.safe_dump(document, allow_unicode=True, width=10**6),
    lambda document: yaml.safe_dump(document, default_flow_style=True),
    lambda document: json.dumps(document, indent=1, ensure_ascii=False),
)
ENCODINGS = (
    lambda text: text.encode("utf-8", "surrogatepass"),
    lambda text: text.encode("utf-8-sig", "surrogatepass"),
    lambda text: text.replace("\n", "\r\n").encode("utf-8", "surrogatepass"),
    lambda text: text.encode("utf-16", "surrogatepass"),
)


@pytest.mark.slow
@SHARE
def test_fragments_of_yaml_give_a_plan_or_located_mistakes(tally, share):
    @settings(ANY, max_examples=COUNTS["fragments of YAML"] // share)
    @given(content=FRAGMENTS)
    def check(content):
        tally.load(content)

    check()
    assert tally.refused


@pytest.mark.slow
@SHARE
def test_damaged_shipped_suites_give_a_plan_or_located_mistakes(tally, share):
    suites = [path.read_bytes() for path in shipped_suites().values()]

    @settings(ANY, max_examples=COUNTS["shipped suites, damaged"] // share)
    @given(seed=st.integers(0, 2**64))
    def check(seed):
        chance = random.Random(seed)
        tally.load(mutated(chance.choice(suites), suites, chance))

    check()
    assert tally.plans and tally.refused


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_to_unfold_is_refused_or_planned_in_time(tally, name):
    tally.load(LARGE[name].encode())


def test_a_symlink_to_itself_is_a_file_that_is_not_there(tally, tmp_path):
    (tmp_path / "a").symlink_to("a")
    tally.load(LARGE["an image"].replace("0" * 290, "6").encode())
    assert tally.refused


def test_a_plan_prints_names_as_they_are(tmp_path, capsys):
    suite = yaml.safe_dump({**GOOD, "matrix": {"data.image_column": ["[/bold]", "[red]x[/red]", "\x1b[31m"]}})
    path = tmp_path / "study.yaml"
    path.write_text(
        suite.replace(
            "base:", "base:\n  data: {name: parquet, train: [a], held_out: [a], image_size: 8, num_classes: 2}"
        )
    )
    with pytest.raises(SuiteError, match="a control character"):
        show_plan(str(path), [], as_json=False)
    path.write_text(path.read_text().replace(r"\e[31m", ""))
    show_plan(str(path), [], as_json=False)
    assert "image_column=[red]x[/red]" in capsys.readouterr().out
