"""Seeded single faults: do the tests of a room find each of them? `python tests/faults.py --help`.

Each fault changes one operator, constant or branch of a copy of the checkout, and the tests of its room run until the
first failure. A fault is identified by its function and source line, so that a list drawn before a change of the tests
or a move of the code can be run again after it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

CHECKOUT = Path(__file__).parents[1]
ROOMS = (
    "core", "suite", "runner", "regression", "data", "model", "diffusion", "backbones", "measure", "cell", "reports",
    "services", "cli",
)  # fmt: skip
TESTS = {"services": ("cli", "runner", "suite", "reports"), "cli": ("cli", "runner", "suite")}  # others: of their name
HANGS = 900  # seconds after which the tests count as failed
SWAPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "not in": "in"}
SWAPPED |= {"is": "is not", "is not": "is", "+": "-", "-": "+", "*": "+", "/": "*", "//": "*", "and": "or", "or": "and"}


@dataclass(frozen=True)
class Fault:
    """One change: in the lines `before` of `function`, which become `after`."""

    room: str
    file: str
    function: str
    before: str
    after: str


def faults_of(path: Path, room: str) -> Iterator[Fault]:
    """Every single fault of a file's functions."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    for name, function in functions(ast.parse(source)):
        for node in (node for statement in function.body for node in ast.walk(statement)):
            for start, end, text in changes(node, lines):
                # The lines that the change touches.
                first, last = start[0] - 1, end[0] - 1
                before = "".join(lines[first : last + 1])
                tail = lines[last].encode()[end[1] :].decode()
                after = lines[first].encode()[: start[1]].decode() + text + tail
                yield Fault(room, str(path.relative_to(CHECKOUT)), name, before, after)


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a module, with the names of what they stand in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{within}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield f"{within}{node.name}", node


Position = tuple[int, int]


def changes(node: ast.AST, lines: list[str]) -> Iterator[tuple[Position, Position, str]]:
    """What a node may become: start, end and new text."""
    match node:
        case ast.Compare(left=left, comparators=[right]):
            yield from swapped(left, right, lines)
        case ast.BinOp(left=left, right=right) | ast.BoolOp(values=[left, right]):
            yield from swapped(left, right, lines)
        case ast.Constant(value=bool() | int() | float() as value):
            other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value * 1.5
            yield place(node), end_of(node), repr(other)
        case ast.If(test=test) | ast.IfExp(test=test):
            inner = text_between(place(test), end_of(test), lines)
            yield place(test), end_of(test), f"(not ({inner}))"


def swapped(left: ast.expr, right: ast.expr, lines: list[str]) -> Iterator[tuple[Position, Position, str]]:
    """The operator between two operands, for another one; none where parentheses stand between them."""
    between = text_between(end_of(left), place(right), lines)
    if other := SWAPPED.get(" ".join(between.split())):
        yield end_of(left), place(right), f" {other} "


def place(node: ast.expr) -> Position:
    return node.lineno, node.col_offset


def end_of(node: ast.expr) -> Position:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def text_between(start: Position, end: Position, lines: list[str]) -> str:
    if start[0] == end[0]:
        return lines[start[0] - 1].encode()[start[1] : end[1]].decode()
    first = lines[start[0] - 1].encode()[start[1] :].decode()
    return first + "".join(lines[start[0] : end[0] - 1]) + lines[end[0] - 1].encode()[: end[1]].decode()


def modules(room: str = "*") -> list[Path]:
    """The modules of a room, or of all: a pattern with a folder's name follows it where it is a link."""
    return sorted({path for folder in (CHECKOUT / "tread_bench").glob(f"{room}/") for path in folder.rglob("*.py")})


def draw(count: int, seed: int) -> list[Fault]:
    """As many faults as requested, of all rooms together, each as likely."""
    every = [fault for room in ROOMS for path in modules(room) for fault in faults_of(path, room)]
    return random.Random(seed).sample(sorted(set(every), key=lambda fault: json.dumps(asdict(fault))), count)


def standing(fault: Fault) -> Fault | None:
    """The fault where its function stands now; None: the code is gone."""
    own = CHECKOUT / fault.file
    for path in [*([own] if own.exists() else []), *modules()]:
        if place_of(path.read_text(encoding="utf-8"), fault) is not None:
            return replace(fault, file=str(path.relative_to(CHECKOUT)))
    return None


def place_of(source: str, fault: Fault) -> int | None:
    """Where the lines that a fault changes begin, inside its function; None: they are not there."""
    lines = source.splitlines(keepends=True)
    for name, function in functions(ast.parse(source)):
        begin, end = (sum(map(len, lines[:line])) for line in (function.lineno - 1, function.end_lineno))
        if name == fault.function and (found := source.find(fault.before, begin, end)) >= 0:
            return found
    return None


def found_by(fault: Fault) -> str | None:
    """The first test of the fault's room that fails with it, and passes without it; None: there is none."""
    with TemporaryDirectory(prefix="fault-") as folder:
        copy = Path(folder) / "checkout"
        ignored = shutil.ignore_patterns(".git", ".tox", ".venv", "__pycache__", "runs")
        shutil.copytree(CHECKOUT, copy, symlinks=True, ignore=ignored)
        path = copy / fault.file
        whole = path.read_text(encoding="utf-8")
        place = place_of(whole, fault)
        assert place is not None, "it stands there"
        path.write_text(whole[:place] + fault.after + whole[place + len(fault.before) :], encoding="utf-8")
        status, failing = run_tests(tests_of(fault, copy), copy)
        if status == 0:
            return None
        path.write_text(whole, encoding="utf-8")
        without, _ = run_tests(failing or tests_of(fault, copy), copy)
        if without != 0:
            raise RuntimeError(f"{failing} fail without a fault, too: repair them, or the machine, first")
        return failing[0] if failing else "a hang or a crash"


def run_tests(tests: Sequence[str], copy: Path) -> tuple[int, list[str]]:
    """The exit status of pytest in a copy of the checkout, and the first test that fails.

    A hang or a crash counts as failing.
    """
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not endurance", f"--basetemp={copy.parent}/tmp"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=HANGS)
    except subprocess.TimeoutExpired:
        return 1, []
    if done.returncode < 0:
        return 1, []  # ended by a signal, as code does that reads beyond its memory
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return done.returncode, re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)[:1]


def tests_of(fault: Fault, copy: Path) -> list[str]:
    """The room's test files, those that are called like the file first."""
    rooms = [copy / "tests" / name for name in TESTS.get(fault.room, (fault.room,))]
    subject = Path(fault.file).parent.name if Path(fault.file).stem in ("family", "network") else Path(fault.file).stem
    every = [path for room in rooms for path in sorted(room.rglob("test_*.py"))]
    paths = sorted(every, key=lambda path: subject not in path.stem)
    return [str(path.relative_to(copy)) for path in paths]


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw single faults, or take those of a list, and run their tests.")
    parser.add_argument("--count", type=int, default=100, help="how many to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--of", type=Path, help="a file that an earlier run wrote: its faults instead of new ones")
    parser.add_argument("--out", type=Path, required=True, help="a line of JSON per fault; a rerun goes on with it")
    chosen = parser.parse_args()

    # The faults, without those that have been run.
    if chosen.of is None:
        faults = draw(chosen.count, chosen.seed)
    else:
        faults = [Fault(**json.loads(line)["fault"]) for line in chosen.of.read_text().splitlines()]
    done = chosen.out.read_text().splitlines() if chosen.out.exists() else []

    # Run the tests with each.
    for number, fault in enumerate(faults[len(done) :], start=len(done) + 1):
        now = standing(fault)
        test = found_by(now) if now is not None else None
        outcome = "found" if test else "not found"
        if now is None:
            outcome = "code is gone"
        with chosen.out.open("a") as out:
            out.write(json.dumps({"outcome": outcome, "found_by": test, "fault": asdict(fault)}) + "\n")
        sys.stdout.write(f"{number}/{len(faults)} {outcome}: {fault.file} {fault.function}\n")


if __name__ == "__main__":
    main()
