from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from tread_bench.core.stored.records import GpuConditions, Record
from tread_bench.regression.compare import Baseline, CellFigures, Speed, Verdict, compare, exit_status, figures_of

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


def test_one_mac_more_is_found_always():
    more = cell().exact | {"block_macs": [5, 4]}
    findings = run({"row seed 0": cell()}, {"row seed 0": cell(exact=more)})
    assert verdicts(findings, "exact") == {("block_macs", Verdict.FAIL)}
    assert exit_status(findings) == 1


def test_a_changed_setting_is_named_with_both_values():
    changed = cell().exact | {"config": {"routes": "2:9@0.5"}}
    (finding,) = (f for f in run({"r seed 0": cell()}, {"r seed 0": cell(exact=changed)}) if f.kind == "exact")
    assert (finding.figure, finding.accepted, finding.measured) == ("config.routes", "2:8@0.5", "2:9@0.5")


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


@pytest.mark.parametrize(("speedup", "verdict"), [(1.4, Verdict.PASS), (1.3, Verdict.FAIL), (1.5, Verdict.PASS)])
def test_a_lost_speed_up_fails_and_a_gained_one_passes(speedup, verdict):
    findings = run({"row seed 0": cell()}, {"row seed 0": cell(speed=speed(speedup, seed=1))})
    assert ("dense / routed", verdict) in verdicts(findings, "speed")


def test_seeds_of_a_row_count_their_speed_once():
    cells = seeds(lambda seed: cell())
    assert len([f for f in run(cells, cells) if f.kind == "speed"]) == 2


def test_step_times_are_judged_in_units_of_the_probe_beside_them():
    dense = {"row seed 0": cell(routes="")}
    twice_as_slow_machine = cell(routes="", speed=speed(probe_ms=2.0, slower=2.0))
    slower_program = cell(routes="", speed=speed(probe_ms=1.0, slower=1.2))
    assert ("step time", Verdict.PASS) in verdicts(run(dense, {"row seed 0": twice_as_slow_machine}), "speed")
    assert ("step time", Verdict.FAIL) in verdicts(run(dense, {"row seed 0": slower_program}), "speed")


@pytest.mark.parametrize(
    ("accepted", "measured", "verdict", "status"),
    [
        (CPU, CPU | {"device_name": "another CPU"}, Verdict.SKIPPED, 0),
        (GPU, GPU | {"device_name": "another GPU"}, Verdict.INCONCLUSIVE, 3),
        (GPU, CPU, Verdict.INCONCLUSIVE, 3),
        (CPU, GPU, Verdict.INCONCLUSIVE, 3),
    ],
)
def test_times_of_another_cpu_are_not_compared_and_those_of_another_gpu_unfit(accepted, measured, verdict, status):
    elsewhere = cell(conditions=measured, speed=speed(slower=9.0, speedup=1.0))
    findings = run(seeds(lambda seed: cell(conditions=accepted)), seeds(lambda seed: elsewhere))
    assert verdicts(findings, "speed") == {("step time", verdict)}
    assert exit_status(findings) == status


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
    noisy = Speed(step_times_ms=own, reference_step_times_ms=[50.0] * 20, probe_ms=1.0)
    for accepted, measured in ((speed(), noisy), (noisy, speed())):
        found = run({"r seed 0": cell(speed=accepted)}, {"r seed 0": cell(speed=measured)})
        told = {f.figure: f.reason for f in found if f.kind == "speed" and f.verdict is Verdict.INCONCLUSIVE}
        assert told.keys() == unfit and all("where times vary by" in reason for reason in told.values())


def test_a_dense_row_without_a_probe_is_reported_as_not_compared():
    dense = {"row seed 0": cell(routes="", speed=speed(probe_ms=None))}
    assert verdicts(run(dense, {"row seed 0": cell(routes="")}), "speed") == {("step time", Verdict.SKIPPED)}
    assert verdicts(run(dense, dense), "speed") == {("step time", Verdict.SKIPPED)}


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [(20, 5, Verdict.FAIL), (20, 19, Verdict.FAIL), (5, 5, Verdict.SKIPPED), (5, 20, Verdict.SKIPPED)],
)
def test_fewer_pairs_than_a_verdict_takes_are_not_judged_and_fail_where_the_baseline_has_them(before, now, verdict):
    accepted, measured = (
        cell(speed=Speed(step_times_ms=[9.0] * pairs, reference_step_times_ms=[9.0] * pairs, probe_ms=1.0))
        for pairs in (before, now)
    )
    findings = run({"r seed 0": accepted}, {"r seed 0": measured})
    assert verdicts(findings, "speed") == {("step time", verdict)}


@pytest.mark.parametrize(
    ("figure", "vanished"),
    [
        ("step time", {"speed": None}),
        ("probe", {"speed": speed(probe_ms=None)}),
        ("peak memory", {"peak_memory_mib": None}),
        ("fid", {"quality": {"validation_loss": 0.5}}),
    ],
)
def test_what_is_not_measured_any_more_fails(figure, vanished):
    whole = {"peak_memory_mib": 9.0, "memory_kind": "allocator"}
    findings = run({"r seed 0": cell(**whole)}, {"r seed 0": cell(**{**whole, **vanished})})
    assert (figure, Verdict.FAIL) in verdicts(findings, "presence")
    assert exit_status(findings) == 1


def test_what_the_baseline_has_not_is_no_fault_of_the_run():
    findings = run({"r seed 0": cell(speed=None, quality={})}, {"r seed 0": cell()})
    assert verdicts(findings, "presence") == verdicts(findings, "speed") == set()
    assert exit_status(findings) == 0


QUIET = GpuConditions(sm_clock_mhz=1980, power_limit_w=700.0)
SLOW_CLOCK = GpuConditions(sm_clock_mhz=1200, power_limit_w=700.0)


@pytest.mark.parametrize(
    ("accepted", "measured", "told"),
    [
        ((QUIET, QUIET), (QUIET, SLOW_CLOCK), "the GPU, now: its clock went from 1980 to 1200 MHz"),
        ((QUIET, SLOW_CLOCK), (QUIET, QUIET), "the GPU, when accepted: its clock"),
    ],
)
def test_a_gpu_that_was_not_the_same_makes_speed_unfit_to_judge(accepted, measured, told):
    old, new = (
        {"r seed 0": cell(speed=speed().model_copy(update=dict(zip(("gpu_before", "gpu_after"), gpu, strict=True))))}
        for gpu in (accepted, measured)
    )
    findings = run(old, new)
    (finding,) = (finding for finding in findings if finding.kind == "speed")
    assert finding.verdict is Verdict.INCONCLUSIVE and told in finding.reason
    assert exit_status(findings) == 3
    assert exit_status(run(old, old)) == (3 if "when accepted" in told else 0)


@pytest.mark.parametrize(("peak", "verdict"), [(1018.0, Verdict.PASS), (1018.1, Verdict.FAIL), (900.0, Verdict.PASS)])
def test_an_allocators_peak_may_grow_by_one_percent_and_eight_mib(peak, verdict):
    accepted = cell(peak_memory_mib=1000.0, memory_kind="allocator")
    measured = cell(peak_memory_mib=peak, memory_kind="allocator")
    assert verdicts(run({"r seed 0": accepted}, {"r seed 0": measured}), "memory") == {("peak", verdict)}


def test_a_resident_set_is_no_allocators_peak():
    accepted = cell(peak_memory_mib=1000.0, memory_kind="resident set")
    assert not verdicts(run({"r seed 0": accepted}, {"r seed 0": accepted}), "memory")


def test_equal_conditions_on_a_cpu_ask_for_equal_bits():
    accepted = cell(conditions=CPU)
    nudged = (
        ("validation_loss", {"quality": {"fid": 8.0, "validation_loss": math.nextafter(0.5, 1)}}),
        ("final weights", {"final_weights_sha256": "ce"}),
    )
    assert verdicts(run({"r seed 0": accepted}, {"r seed 0": accepted}), "quality") == {("bits", Verdict.PASS)}
    for told, change in nudged:
        (finding,) = (
            f for f in run({"r seed 0": accepted}, {"r seed 0": cell(conditions=CPU, **change)}) if f.kind == "quality"
        )
        assert (finding.figure, finding.verdict) == ("bits", Verdict.FAIL) and finding.measured.startswith(told)


@pytest.mark.parametrize(("share", "verdict"), [(1e-13, Verdict.PASS), (-9e-10, Verdict.PASS), (2e-9, Verdict.FAIL)])
@pytest.mark.parametrize("kernels", ["Haswell", "SkylakeX", 5])  # 5: an edited file
def test_a_fid_is_compared_within_what_the_kernels_of_a_blas_change(share, verdict, kernels):
    accepted = cell(conditions=CPU | {"blas_kernels": "SkylakeX"})
    quality = {"fid": 8.0 * (1 + share), "validation_loss": 0.5}
    measured = cell(conditions=CPU | {"blas_kernels": kernels}, quality=quality)
    (finding,) = (f for f in run({"r seed 0": accepted}, {"r seed 0": measured}) if f.kind == "quality")
    assert (finding.figure, finding.verdict) == ("bits", verdict)


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
    ("shift", "noise", "verdict"),
    [
        (0.0, 0.01, Verdict.PASS),
        (1.0, 0.01, Verdict.FAIL),
        (-1.0, 0.01, Verdict.PASS),
        (0.2, 0.5, Verdict.INCONCLUSIVE),
    ],
)
def test_elsewhere_quality_is_judged_by_paired_seeds_and_the_margin(shift, noise, verdict):
    def fid(by):
        return seeds(lambda seed: cell(quality={"fid": 8 + seed + by * (1 if seed % 2 else -1) * noise}))

    accepted = fid(0.0)
    measured = {
        name: figures.model_copy(update={"quality": {"fid": figures.quality["fid"] + shift}})
        for name, figures in fid(1.0).items()
    }
    findings = run(accepted, measured, margins={"fid": 0.03})
    assert verdicts(findings, "quality") == {("fid", verdict)}


@pytest.mark.parametrize(
    ("name", "by", "verdict"),
    [
        ("recall", -0.1, Verdict.FAIL),  # higher is better
        ("recall", 0.1, Verdict.PASS),
        ("kid", 0.1, Verdict.FAIL),
        ("kid", -0.1, Verdict.PASS),
        ("from_elsewhere", -0.1, Verdict.SKIPPED),
    ],
)
def test_a_figure_of_another_metric_is_compared_in_the_direction_that_the_metric_says(name, by, verdict):
    accepted, measured = (
        seeds(lambda seed, more=more: cell(quality={"validation_loss": 0.5, name: 0.7 + seed / 100 + more}))
        for more in (0.0, by)
    )
    assert (name, verdict) in verdicts(run(accepted, measured), "quality")


def test_figures_of_added_metrics_are_accepted_with_the_others(record):
    last = record.evaluations[-1].model_copy(update={"figures": {"coverage": 0.5}})
    (figures,) = figures_of([record.model_copy(update={"evaluations": [last]})]).values()
    assert figures.quality["coverage"] == 0.5


def test_one_seed_has_no_interval_and_is_not_compared():
    findings = run({"r seed 0": cell(quality={"fid": 8.0})}, {"r seed 0": cell(quality={"fid": 9.0})})
    assert verdicts(findings, "quality") == {("fid", Verdict.SKIPPED)}
    assert exit_status(findings) == 0


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


def test_other_initial_weights_on_such_a_cpu_fail():
    drawn = cell().exact | {"initial_weights_sha256": "cd"}
    findings = run({"r seed 0": cell()}, {"r seed 0": cell(exact=drawn)})
    assert verdicts(findings, "exact") == {("initial_weights_sha256", Verdict.FAIL)}


def test_a_baseline_keeps_what_a_record_was_timed_beside(record):
    (figures,) = figures_of([record]).values()
    assert figures.speed.probe_ms == record.timing.probe_ms == 7.5
    assert figures.speed.step_times_ms == record.timing.step_times_ms
