"""`python -m benchmarks.gpu`: its parts, its document and its table, from recorded figures; no test needs a GPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import device, parts, table
from benchmarks.gpu.document import GpuDocument, read_results
from benchmarks.processes import CHECKOUT
from tests.run_folders import begun, figures_of_speed
from tread_bench.cell.kernels import resolve_kernels
from tread_bench.core.config.compute import StepOptions
from tread_bench.core.numbers.costs import cell_cost
from tread_bench.core.stored.documents import initial_record
from tread_bench.core.stored.records import TimingFigures
from tread_bench.suite.load import load_plan

MACHINE = {
    "date": "2026-11-25T20:00:00+00:00", "commit": None, "changed": None, "gpus": ["GPU of a test"] * 2, "driver": None,
    "gpu_memory_mib": 1, "cuda": None, "cpu": "a CPU", "cpus": 1, "memory_mib": 1, "system": "Linux", "versions": {},
}  # fmt: skip
ROUTED_MS, DENSE_MS = 64.0, 100.0  # of a step
PRODUCT_MACS_PER_S = 4e14


def timing_of(step_ms: float, batch: int) -> TimingFigures:
    """Steps that all take as long, beside dense ones."""
    same = dict.fromkeys(("step_time_ms", "step_time_low_ms", "step_time_high_ms", "loop_time_ms"), step_ms)
    ratio = dict.fromkeys(("speedup", "speedup_low", "speedup_high"), DENSE_MS / step_ms)
    found = figures_of_speed(product_macs_per_s=PRODUCT_MACS_PER_S, peak_memory_mib=2048)
    steps = {"step_times_ms": [step_ms] * 2, "reference_step_times_ms": [DENSE_MS] * 2}
    rate = {"batch": batch, "images_per_s": 1e3 * batch / step_ms, "data_wait_share": 0.015}
    return found.model_copy(update=same | ratio | steps | rate)


class Recorded:
    """In place of the commands: each ends as it is told, and a run leaves records of these figures."""

    def __init__(self) -> None:
        self.ends: dict[str, tuple[int, str]] = {}  # by a word of the command
        self.failing: dict[str, str] = {}  # rows with the reasons

    def __call__(self, typed: list[str]) -> tuple[int, str]:
        words = typed[3:]
        status, said = next((end for word, end in self.ends.items() if word in typed), (0, "41 passed in 9.87s"))
        if words[:1] == ["run"] and status != 2:
            self.run(Path(words[1]), words)
        return status, said

    def run(self, suite: Path, words: list[str]) -> None:
        if suite == parts.REGRESSION:
            return
        overrides = [value for name, value in pairwise(words) if name == "--set"]
        given = dict(pairwise(words))
        root = Path(given["--data-root"]) if "--data-root" in given else None
        plan = load_plan(suite, overrides, data_root=root, allows_missing=True)
        chosen = plan.suite.compute.model_dump(include=set(StepOptions.model_fields))
        kernels = resolve_kernels(plan.suite.compute.kernels.model_dump(), "cuda")
        folder = begun(Path(given["--out"]), plan, suite.read_text(), numerics={**chosen, "kernels": kernels})
        rows = given["--rows"].split(",") if "--rows" in given else [*plan.rows]
        for planned in (cell for row in rows for cell in plan.rows[row]):
            request, written = folder.existing_request(planned.id), folder.existing_plan()
            step_ms = ROUTED_MS if planned.cell.routes else DENSE_MS
            figures = {
                "status": "done",
                "cost": cell_cost(planned.cell.model_copy(update={"auxiliary": ()})),
                "timing": timing_of(step_ms, planned.cell.training.batch),
            }
            if planned.row in self.failing:
                figures = {"reason": self.failing[planned.row]}
            folder.write_record(initial_record(request, written, **figures))


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    """A machine with two GPUs and a baseline, as far as the command can tell."""
    found = Recorded()
    baseline = tmp_path / "baseline.json"
    baseline.touch()
    monkeypatch.setattr(parts, "told", found)
    monkeypatch.setattr(parts, "gpus", lambda: 2)
    monkeypatch.setattr(parts, "write_random_encoders", lambda folder: None)
    monkeypatch.setattr(parts, "BASELINE", baseline)
    monkeypatch.setattr(device, "missing_device", lambda: None)
    monkeypatch.setattr("benchmarks.conditions.gpu_conditions", lambda: MACHINE)
    return found


def measured(out: Path) -> tuple[int, GpuDocument, str]:
    """The command's status, its document, and its table."""
    status = command.main(["--out", str(out)])
    content = (out / "result.json").read_text()
    return status, GpuDocument.model_validate_json(content, strict=True), (out / "result.md").read_text()


def row_of(text: str, name: str, processes: int, images: object = 64, way: str = "network") -> dict[str, str]:
    """A line of the table; a bar that is escaped separates nothing."""
    start = rf"^\| {re.escape(name)} \| {processes} \| {images} \| {way} \| .*$"
    (found,) = re.findall(start, text, re.MULTILINE)
    return dict(zip(table.HEADERS, [*re.split(r"(?<!\\) \| ", found.strip("| ")), ""], strict=False))


# Without a GPU


def test_without_a_gpu_there_is_one_line_and_nothing_is_written(tmp_path):
    asked = [sys.executable, "-m", "benchmarks.gpu", "--out", str(tmp_path / "out")]
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(asked, env=hidden, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"no GPU: torch .*; run this where `nvidia-smi` lists a GPU.*\n", done.stderr)
    assert not (tmp_path / "out").exists()


# What is measured


def test_the_table_follows_from_the_records_and_what_fails_keeps_its_row_and_its_reason(recorded, tmp_path):
    recorded.ends = {"pytest": (1, "= 2 failed, 39 passed in 9.87s =")}
    recorded.failing = dict.fromkeys(("DiS-B/2", "DiT-S/2"), "measuring speed and memory: out of memory")
    status, document, text = measured(tmp_path / "out")
    assert status == 1
    ended = {part.name: part.status for part in document.parts}
    assert [name for name in ended if ended[name] == "failed"] == ["kernels", "host", "speed", "two processes"]
    assert document.parts[0].reason == "2 failed, 39 passed in 9.87s"
    reasons = {part.name: part.reason for part in document.parts}
    assert reasons["speed"] == "1 of 4 rows failed" and "captured, 256 images: 1 of 6 rows failed" in reasons["host"]
    failed = row_of(text, "DiS-B/2", 1, "–", "–")
    assert failed["failed"] == "measuring speed and memory: out of memory" and failed["images/s"] == "–"

    # One process: rate, share of the product's rate, and the speed-up over that of the MACs.
    routed = cell_cost(load_plan(parts.SPEED).rows["DiT-XL/2-routed"][0].cell)
    row = row_of(text, "DiT-XL/2-routed", 1)
    rate = 64 / ROUTED_MS * 1e3
    assert row["images/s"].startswith(f"{rate:,.0f} (") and row["per GPU"] == f"{rate:,.0f}"
    assert float(row["MFU, %"]) == pytest.approx(100 * rate * routed.train_step_macs / PRODUCT_MACS_PER_S, abs=0.05)
    macs_ratio = routed.dense_forward_macs / routed.forward_macs
    assert (row["ms per step"], row["loop, ms"]) == (f"{ROUTED_MS} ({ROUTED_MS} to {ROUTED_MS})", str(ROUTED_MS))
    assert row_of(text, "DiT-XL/2-routed", 1, 256, "captured")["images/s"].startswith(f"{4 * rate:,.0f} (")
    assert float(row["of MACs"].split()[0]) == pytest.approx(DENSE_MS / ROUTED_MS / macs_ratio, abs=0.005)

    # Two processes take the same time for twice as many images: each GPU is as fast as one alone, and as busy.
    both = row_of(text, "DiT-XL/2-routed", 2)
    assert both["images/s"].split()[0] == f"{2 * rate:,.0f}" and both["scaling"] == "1.00"
    assert (both["per GPU"], both["MFU, %"]) == (row["per GPU"], row["MFU, %"])


@pytest.mark.parametrize(("is_kept", "ended"), [(True, (3, "inconclusive")), (False, (0, "skipped"))])
def test_the_check_ends_as_the_gate_does_and_no_baseline_is_no_failure(is_kept, ended, recorded, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PARTS", (parts.check,))
    recorded.ends = {"check": (3, "4 inconclusive")}
    if not is_kept:
        parts.BASELINE.unlink()
    status, document, _ = measured(tmp_path / "out")
    assert (status, document.parts[0].status) == ended


# What was sent in


def test_the_page_of_this_checkout_says_what_was_sent_in():
    """After a change: `python -m benchmarks.gpu --publish benchmarks/sent_in docs/performance.md`."""
    text = table.PAGE.text_of(CHECKOUT / "docs" / "performance.md")
    results = read_results(CHECKOUT / "benchmarks" / "sent_in")
    assert f"{table.PAGE.begin}\n\n{table.page(results)}\n\n{table.PAGE.end}" in text


def test_what_is_no_result_is_one_message_for_each_file_and_the_page_stays(recorded, tmp_path, capsys):
    folder, page = tmp_path / "sent_in", tmp_path / "page.md"
    folder.mkdir()
    measured(tmp_path / "out")
    whole = (tmp_path / "out" / "result.json").read_text()
    (folder / "cut.json").write_text(whole[: len(whole) // 2])
    (folder / "newer.json").write_text(json.dumps(json.loads(whole) | {"schema_version": 2}))
    (folder / "one.json").write_text(whole)
    page.write_text(f"{table.PAGE.begin}\nold\n{table.PAGE.end}\n")
    capsys.readouterr()
    assert command.main(["--publish", str(folder), str(page)]) == 2
    cut, newer = capsys.readouterr().err.splitlines()
    assert "cut.json" in cut and "newer.json has format version 2" in newer
    assert "old" in page.read_text()
