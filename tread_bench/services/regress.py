"""`ci regress`: this version against another one, timed in turn."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from tread_bench.core.signals import signals_interrupt
from tread_bench.regression.baseline.baseline import Baseline, figures_of
from tread_bench.regression.baseline.compare import compare
from tread_bench.regression.baseline.findings import Finding, exit_status
from tread_bench.regression.baseline.speed_rule import PAIRS
from tread_bench.regression.versions.alternate import alternate, findings
from tread_bench.regression.versions.environments import build, checkout, commit_of, export
from tread_bench.regression.versions.windows import Subject, Version, disturbances, settings, step_times, steps_for
from tread_bench.runner.display import Display
from tread_bench.runner.folder import RunFolder
from tread_bench.services.check import Checked, Outputs
from tread_bench.services.display import make_display
from tread_bench.suite.load import find_suite, load_plan


def regress(
    name: str, ref: str, overrides: list[str], device: str, outputs: Outputs, data_root: Path | None = None
) -> Checked:
    """Build both versions and time them in turn. Raises UserError."""
    outputs.try_paths()
    suite = find_suite(name).resolve()
    overrides = without_budgets(suite, overrides, data_root)
    load_plan(suite, settings(overrides), data_root=data_root)
    subject = Subject(suite, overrides, device, data_root)
    root = checkout()
    commit = commit_of(ref, root)
    display = make_display(Console(stderr=True))
    with signals_interrupt(), TemporaryDirectory(prefix="tread-bench-") as scratch:
        home = Path(scratch)
        old = Version("old", build(export(commit, root, home / "source"), home / "old"))
        new = Version("new", build(root, home / "new"))
        try:
            found = _compare((old, new), subject, home, display)
        finally:
            display.end()
    about = f"{suite.stem} against {ref} ({commit[:10]})"
    outputs.write(found, f"ci regress: {about}")
    return Checked(about, found, exit_status(found))


def without_budgets(suite: Path, overrides: list[str], data_root: Path | None = None) -> list[str]:
    """Return the overrides, which end the budgets of a suite that has any, and its choice of learning rates: windows
    time steps, and are too brief for them.
    """
    plan = load_plan(suite, overrides, data_root=data_root)
    ended = ["training.budget=null"] if any(cell.cell.training.budget for cell in plan.cells) else []
    ended += ["tune=null"] if plan.tuning else []
    return [*ended, *overrides]


def _compare(versions: tuple[Version, Version], subject: Subject, home: Path, display: Display) -> list[Finding]:
    runs = 0
    display.begin("choosing the number of steps per window", {"look": "estimating the step time"}, 1)
    steps = steps_for(step_times(versions[1], subject, home / "look"))
    display.ended("look")

    def window(is_new: bool) -> dict[str, float]:
        nonlocal runs
        if runs % (2 * PAIRS) == 0:
            first = runs // 2 + 1
            pairs = {str(k): f"pair {k}" for k in range(first, first + PAIRS)}
            display.begin(f"timing both versions in turn, pairs {first} to {first + PAIRS - 1}", pairs, 1)
        runs += 1
        folder = home / f"{versions[is_new].name}-{runs}"
        return step_times(versions[is_new], subject, folder, steps)

    timings = alternate(window, lambda done: display.ended(str(done)))
    return [*_exact(home, versions), *findings(timings, disturbances(home.glob("*-*")))]


def _exact(home: Path, versions: tuple[Version, Version]) -> list[Finding]:
    """Parameters, MACs and initial weights of the two."""
    sides = []
    for version in versions:
        folder = RunFolder(next(home.glob(f"{version.name}-*")))
        sides.append(figures_of(folder.records(folder.existing_plan().references)))
    old, new = sides
    return [f for f in compare(Baseline(suite="", cells=old), new, {}) if _is_measured(f)]


def _is_measured(finding: Finding) -> bool:
    """Without how a version writes the settings of a cell: both have read them from one suite."""
    return finding.kind in ("presence", "exact") and not finding.figure.startswith("config.")
