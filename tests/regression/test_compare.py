from __future__ import annotations

import json
import math
import random
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tread_bench.core.stored.records import GpuConditions, Record
from tread_bench.regression.compare import (
    Baseline,
    CellFigures,
    Finding,
    Speed,
    Verdict,
    compare,
    exit_status,
    figures_of,
    holm,
    moved,
    to_junit,
)

CPU = {"device": "cpu", "device_name": "a CPU", "torch": "2.15.0", "threads": 1, "cpu_capability": "AVX512"}
GPU = {"device": "cuda", "device_name": "a GPU", "torch": "2.15.0", "threads": 1, "cpu_capability": "AVX512"}


def speed(speedup=1.4, seed=0, probe_ms=1.0, slower=1.0):
    rng = random.Random(seed)
    dense = [50 * slower * rng.lognormvariate(0, 0.02) for _ in range(20)]
    own = [t / speedup * rng.lognormvariate(0, 0.02) for t in dense]
    return Speed(step_times_ms=own, reference_step_times_ms=dense, probe_ms=probe_ms)


def cell(routes="2:8@0.5", **changes):
    exact = {"params": 10, "block_macs": [5, 3], "initial_weights_sha256": "ab", "config": {"routes": routes}}
    fields = {
        "exact": exact,
        "conditions": GPU,
        "speed": speed(),
        "quality": {"fid": 8.0, "validation_loss": 0.5},
        "final_weights_sha256": "cd",
    }
    return CellFigures(**{**fields, **changes})


def run(accepted, measured, **kwargs):
    baseline = Baseline(suite="s", cells=accepted, **kwargs)
    return compare(baseline, measured, {})


def seeds(make):
    return {f"row seed {seed}": make(seed) for seed in range(4)}


def verdicts(findings, kind):
    return {(finding.figure, finding.verdict) for finding in findings if finding.kind == kind}


@pytest.fixture
def record():
    path = Path(__file__).parents[1] / "stored" / "record.json"
    content = json.loads(path.read_text())
    return Record.model_validate({**content, "timing": {**content["timing"], "probe_ms": 7.5}})


def test_a_run_passes_against_itself():
    cells = seeds(lambda seed: cell(quality={"fid": 8 + seed / 10, "validation_loss": 0.5}))
    findings = run(cells, cells)
    assert {finding.verdict for finding in findings} == {Verdict.PASS}
    assert exit_status(findings) == 0


def test_what_is_exact_is_told_with_both_values():
    exact = cell().exact | {"config": {"routes": "2:9@0.5"}, "initial_weights_sha256": "cd"}
    findings = run({"r seed 0": cell()}, {"r seed 0": cell(exact=exact)})
    assert [(f.figure, f.verdict, f.accepted, f.measured) for f in findings if f.kind == "exact"] == [
        ("config.routes", Verdict.FAIL, "2:8@0.5", "2:9@0.5"),
        ("initial_weights_sha256", Verdict.FAIL, "ab", "cd"),
    ]


ALLOCATED = {"peak_memory_mib": 1000.0, "memory_kind": "allocator"}
BEYOND_NOISE = speed(slower=9.0, speedup=1.0)


def dense(**of_speed):
    return {"routes": "", "speed": speed(**of_speed)}


def pairs(count):
    return {"speed": Speed(step_times_ms=[9.0] * count, reference_step_times_ms=[9.0] * count, probe_ms=1.0)}


def peak(mib):
    return {"peak_memory_mib": mib, "memory_kind": "allocator"}


def on_cpu(fid=8.0, loss=0.5, weights="cd", **conditions):
    quality = {"fid": fid, "validation_loss": loss}
    return {"conditions": CPU | conditions, "quality": quality, "final_weights_sha256": weights}


@pytest.mark.parametrize(
    ("accepted", "measured", "kind", "figure", "verdict"),
    [
        ({}, {"speed": speed(1.4, seed=1)}, "speed", "dense / routed", Verdict.PASS),
        ({}, {"speed": speed(1.3, seed=1)}, "speed", "dense / routed", Verdict.FAIL),
        # In units of the probe: a machine that is slower, and a program that is.
        (dense(), dense(probe_ms=2.0, slower=2.0), "speed", "step time", Verdict.PASS),
        (dense(), dense(probe_ms=1.0, slower=1.2), "speed", "step time", Verdict.FAIL),
        (dense(probe_ms=None), dense(), "speed", "step time", Verdict.SKIPPED),
        # Elsewhere.
        (on_cpu(), on_cpu(device_name="other") | {"speed": BEYOND_NOISE}, "speed", "step time", Verdict.SKIPPED),
        ({}, {"conditions": GPU | {"device_name": "other"}}, "speed", "step time", Verdict.INCONCLUSIVE),
        ({}, {"conditions": CPU, "speed": BEYOND_NOISE}, "speed", "step time", Verdict.INCONCLUSIVE),
        ({"conditions": CPU}, {"speed": BEYOND_NOISE}, "speed", "step time", Verdict.INCONCLUSIVE),
        # Too few pairs for a verdict.
        (pairs(20), pairs(19), "speed", "step time", Verdict.FAIL),
        (pairs(5), pairs(20), "speed", "step time", Verdict.SKIPPED),
        # What is not measured any more.
        ({}, {"speed": None}, "presence", "step time", Verdict.FAIL),
        ({}, {"speed": speed(probe_ms=None)}, "presence", "probe", Verdict.FAIL),
        (ALLOCATED, {}, "presence", "peak memory", Verdict.FAIL),
        ({}, {"quality": {"validation_loss": 0.5}}, "presence", "fid", Verdict.FAIL),
        # A peak may grow by one percent and eight MiB.
        (ALLOCATED, peak(1018.0), "memory", "peak", Verdict.PASS),
        (ALLOCATED, peak(1018.1), "memory", "peak", Verdict.FAIL),
        # Bits on the same CPU; FID within what the kernels of a BLAS change.
        (on_cpu(), on_cpu(loss=math.nextafter(0.5, 1)), "quality", "bits", Verdict.FAIL),
        (on_cpu(), on_cpu(weights="ce"), "quality", "bits", Verdict.FAIL),
        (on_cpu(), on_cpu(fid=8.0 * (1 - 9e-10), blas_kernels="Haswell"), "quality", "bits", Verdict.PASS),
        (on_cpu(), on_cpu(fid=8.0 * (1 + 2e-9)), "quality", "bits", Verdict.FAIL),
        # One seed has no interval.
        ({}, {"quality": {"fid": 9.0}}, "quality", "fid", Verdict.SKIPPED),
    ],
)
def test_a_figure_has_its_verdict(accepted, measured, kind, figure, verdict):
    findings = run({"r seed 0": cell(**accepted)}, {"r seed 0": cell(**measured)})
    assert (figure, verdict) in verdicts(findings, kind)
    statuses = {exit_status([one]) for one in findings if (one.kind, one.figure) == (kind, figure)}
    assert statuses == {{Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 3}.get(verdict, 0)}


def test_seeds_of_a_row_count_their_speed_once_and_a_resident_set_is_no_peak():
    cells = seeds(lambda seed: cell(peak_memory_mib=1000.0, memory_kind="resident set"))
    assert len([f for f in run(cells, cells) if f.kind == "speed"]) == 2
    assert not verdicts(run(cells, cells), "memory")


def test_new_vanished_and_failed_cells_fail_and_say_which_they_are():
    accepted = Baseline(suite="s", cells={"old seed 0": cell(), "broken seed 0": cell()})
    failed = {"broken seed 0": "NaN at step 3", "broken too seed 0": "out of memory"}
    findings = compare(accepted, {"new seed 0": cell()}, failed)
    assert [(f.cell, f.accepted, f.measured, f.reason) for f in findings] == [
        ("broken seed 0", "present", "absent", "NaN at step 3"),
        ("broken too seed 0", "absent", "absent", "out of memory"),
        ("new seed 0", "absent", "present", "new"),
        ("old seed 0", "present", "absent", "vanished: the run no longer has this cell"),
    ]
    assert {f.verdict for f in findings} == {Verdict.FAIL}


@pytest.mark.parametrize(
    ("changes", "verdict", "elsewhere"),
    [
        ({"autocast": "bfloat16"}, Verdict.FAIL, Verdict.FAIL),
        ({"threads": 16}, Verdict.FAIL, Verdict.FAIL),
        ({"matmul_precision": "medium"}, Verdict.FAIL, Verdict.SKIPPED),
        ({"kernels": {"scan": "torch"}}, Verdict.FAIL, Verdict.SKIPPED),
    ],
)
def test_how_it_was_computed_is_configuration_that_must_not_differ(changes, verdict, elsewhere):
    chosen = GPU | {"autocast": "none", "matmul_precision": "highest", "kernels": {"scan": "numba"}}
    for device, expected in ((GPU["device_name"], verdict), ("another GPU", elsewhere)):
        now = chosen | changes | {"device_name": device}
        found = run({"r seed 0": cell(conditions=chosen)}, {"r seed 0": cell(conditions=now)})
        (finding,) = (f for f in found if f.kind == "exact")
        assert finding.verdict is expected and finding.figure.startswith("compute.")


def test_a_file_is_the_same_wherever_it_lies(record):
    def figures(folder):
        data = {"name": "parquet", "train": [f"{folder}/train.parquet"]}
        config = record.config | {"data": data}
        return figures_of([record.model_copy(update={"config": config})])

    found = run(figures("/home/me/data"), figures("/runner/_work"))
    assert {f.verdict for f in found if f.kind == "exact"} == {Verdict.PASS}


@pytest.mark.parametrize(("noise", "unfit"), [(0.15, {"dense / routed", "step time"}), (0.05, {"dense / routed"})])
def test_pairs_that_vary_too_much_for_a_rule_are_no_ground_for_its_verdict(noise, unfit):
    rng = random.Random(0)
    own = [36 * rng.lognormvariate(0, noise) for _ in range(20)]
    spread = f"where times vary by {np.log(own).std(ddof=1):.1%}"
    noisy = Speed(step_times_ms=own, reference_step_times_ms=[50.0] * 20, probe_ms=1.0)
    for accepted, measured in ((speed(), noisy), (noisy, speed())):
        found = run({"r seed 0": cell(speed=accepted)}, {"r seed 0": cell(speed=measured)})
        told = {f.figure: f.reason for f in found if f.kind == "speed" and f.verdict is Verdict.INCONCLUSIVE}
        assert told.keys() == unfit and all(spread in reason for reason in told.values())


def test_what_the_baseline_has_not_is_no_fault_of_the_run():
    findings = run({"r seed 0": cell(speed=None, quality={})}, {"r seed 0": cell()})
    assert verdicts(findings, "presence") == verdicts(findings, "speed") == set()
    assert exit_status(findings) == 0


QUIET = GpuConditions(sm_clock_mhz=1980, throttle_reasons=["software power cap"], other_processes=0)
SLOW_CLOCK = QUIET.model_copy(update={"sm_clock_mhz": 1200})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"sm_clock_mhz": 1881}, []),  # as boost does by itself
        ({"sm_clock_mhz": 1880}, ["its clock went from 1980 to 1880 MHz"]),
        ({"throttle_reasons": ["GPU idle"]}, []),
        ({"throttle_reasons": ["hardware power brake"]}, ["it was throttled (hardware power brake)"]),
        ({"other_processes": 2}, ["other processes computed on it (2)"]),
        (dict.fromkeys(("sm_clock_mhz", "throttle_reasons", "other_processes")), []),  # not known
    ],
)
def test_a_gpu_has_moved_where_its_clock_or_its_load_has(change, told):
    changed = QUIET.model_copy(update=change)
    assert moved(QUIET, changed) == told
    if "sm_clock_mhz" not in change:
        assert moved(changed, QUIET) == told
    assert moved(None, QUIET) == moved(QUIET, None) == []


def test_a_gpu_that_was_not_the_same_makes_speed_unfit_to_judge():
    def timed(after):
        return {"r seed 0": cell(speed=speed().model_copy(update={"gpu_before": QUIET, "gpu_after": after}))}

    for accepted, measured, told in (
        (QUIET, SLOW_CLOCK, "the GPU, now: its clock went from 1980 to 1200 MHz"),
        (SLOW_CLOCK, QUIET, "the GPU, when accepted: its clock"),
    ):
        findings = run(timed(accepted), timed(measured))
        (finding,) = (finding for finding in findings if finding.kind == "speed")
        assert finding.verdict is Verdict.INCONCLUSIVE and told in finding.reason
        assert exit_status(findings) == 3
    assert exit_status(run(timed(QUIET), timed(QUIET))) == 0


def test_another_configuration_or_network_is_told_once_and_its_quality_judged_by_the_margin():
    def cells(fid, **exact):
        return seeds(
            lambda seed: cell(conditions=CPU, exact=cell().exact | exact, quality={"fid": 8 + seed / 10 + fid})
        )

    for exact in ({"config": {"routes": "2:9@0.5"}}, {"block_macs": [5, 4]}):
        findings = run(cells(0.0), cells(0.01, **exact))
        assert verdicts(findings, "quality") == {("fid", Verdict.PASS)}
        assert {f.kind for f in findings if f.verdict is Verdict.FAIL} == {"exact"}
    assert verdicts(run(cells(0.0), cells(0.0, config={"added": 1})), "quality") == {("bits", Verdict.PASS)}


@pytest.mark.parametrize(
    ("name", "shift", "noise", "verdict"),
    [
        ("fid", 0.0, 0.01, Verdict.PASS),
        ("fid", 1.0, 0.01, Verdict.FAIL),
        ("fid", -1.0, 0.01, Verdict.PASS),
        ("fid", 0.2, 0.5, Verdict.INCONCLUSIVE),
        ("recall", -1.0, 0.01, Verdict.FAIL),  # higher is better
        ("from_elsewhere", -1.0, 0.01, Verdict.SKIPPED),  # of a metric that is not installed
    ],
)
def test_elsewhere_quality_is_judged_by_paired_seeds_and_the_margin(name, shift, noise, verdict):
    def row(shift, noise):
        return seeds(lambda seed: cell(quality={name: 8 + seed + shift + (noise if seed % 2 else -noise)}))

    findings = run(row(0.0, 0.0), row(shift, noise), margins={name: 0.03})
    assert verdicts(findings, "quality") == {(name, verdict)}


def test_on_another_cpu_what_is_exact_is_still_judged_and_bits_are_not():
    def here(seed, **exact):
        drawn = {"initial_weights_sha256": "ab", **exact}
        return cell(conditions=CPU, exact=cell().exact | drawn, quality={"validation_loss": 0.5 + seed / 100})

    elsewhere = CPU | {"device_name": "another CPU", "cpu_capability": "AVX2"}
    other_bits = {"conditions": elsewhere, "final_weights_sha256": "ef", "speed": speed(slower=9.0)}
    accepted = seeds(here)
    measured = seeds(lambda seed: here(seed, initial_weights_sha256="cd").model_copy(update=other_bits))
    findings = run(accepted, measured)
    assert exit_status(findings) == 0
    assert verdicts(findings, "exact") == {("initial_weights_sha256", Verdict.SKIPPED)}
    assert verdicts(findings, "quality") == {("validation_loss", Verdict.PASS)}
    more = seeds(lambda seed: here(seed, params=11).model_copy(update=other_bits))
    assert ("params", Verdict.FAIL) in verdicts(run(accepted, more), "exact")


def test_a_baseline_keeps_what_a_record_was_timed_beside_and_figures_of_added_metrics(record):
    last = record.evaluations[-1].model_copy(update={"figures": {"coverage": 0.5}})
    (figures,) = figures_of([record.model_copy(update={"evaluations": [last]})]).values()
    assert figures.speed.probe_ms == 7.5 and figures.speed.step_times_ms == record.timing.step_times_ms
    assert figures.quality["coverage"] == 0.5


def test_step_times_come_in_pairs():
    with pytest.raises(ValueError, match="step times come in pairs"):
        Speed(step_times_ms=[1.0], reference_step_times_ms=[1.0, 1.0])
    with pytest.raises(ValueError, match="probe_ms"):
        Speed(step_times_ms=[1.0], reference_step_times_ms=[1.0], probe_ms=0)


def test_junit_counts_what_failed_and_what_is_inconclusive_and_is_xml_whatever_is_told():
    hostile = '<script>alert(1)</script> ]]> & "quoted" \x00'
    findings = [
        Finding("row seed 0", "exact", "params", Verdict.FAIL, "10", "11", hostile),
        Finding("row seed 0", "quality", "fid", Verdict.INCONCLUSIVE, "8", "9", "one seed"),
        Finding("row", "speed", "step time", Verdict.PASS, "5 ms", "5 ms"),
    ]
    suites = ElementTree.fromstring(to_junit(findings, hostile)).findall("testsuite")
    counts = [[suite.get(key) for key in ("tests", "failures", "skipped")] for suite in suites]
    assert counts == [["2", "1", "1"], ["1", "0", "0"]]
    assert "<script>" in suites[0].find("testcase/failure").get("message")


def test_holm_against_a_hand_worked_example():
    # sorted: .005 x 4 = .02, .01 x 3 = .03, .03 x 2 = .06, .04 x 1 = .04 -> raised to .06
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []
