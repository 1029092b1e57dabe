"""Which runs stand in one series, in which order, and what of a series is a change."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from synthetic_records import NUMERICS, VERSIONS
from synthetic_runs import commit_of, night, plan_of, scaled, write_history, write_run

from tread_bench.core.describe import metrics
from tread_bench.core.describe.metrics import Figure
from tread_bench.core.errors import UserError
from tread_bench.regression.history.change_points import MIN_RUNS
from tread_bench.regression.history.configuration import of_quality, of_step
from tread_bench.regression.history.runs import read_runs
from tread_bench.regression.history.series import series_of
from tread_bench.suite.load import find_suite, load_plan

NIGHTS = 12


def history(tmp_path, change=lambda k: lambda r: r, nights=NIGHTS, **kind):
    runs, _ = read_runs(write_history(tmp_path, nights, change, rows=2, **kind))
    return series_of(runs)


def of(series, metric, row="2:8"):
    return [one for one in series if one.metric.name == metric and one.row == row]


def edit_plan(folder, **changes):
    (folder / "plan.json").write_text(json.dumps(plan_of(folder) | changes))


def with_figures(**levels):
    """What is done to a night's records: figures of metrics that the suite added, from one night to the next."""

    def change(k):
        figures = {name: before if k < NIGHTS // 2 else after for name, (before, after) in levels.items()}

        def changed(record):
            evaluations = [one.model_copy(update={"figures": figures}) for one in record.evaluations]
            return record.model_copy(update={"evaluations": evaluations})

        return changed

    return change


COVERAGE = Figure(name="coverage", title="Coverage", definition="share of x", lower_is_better=False, of_itself=1.0)


@pytest.mark.parametrize(("known", "effect"), [({"coverage": COVERAGE}, "worse"), ({}, "changed")])
def test_a_figure_of_an_added_metric_has_a_series_and_says_which_way_is_worse(tmp_path, monkeypatch, known, effect):
    monkeypatch.setattr(metrics, "known_figures", lambda: known)
    found = history(tmp_path, with_figures(coverage=(0.8, 0.7)))
    (series,) = of(found, "coverage")
    (change,) = series.changes
    assert (change.first, change.effect) == (NIGHTS // 2, effect)
    assert series.metric.title == ("Coverage" if known else "coverage")
    assert [one.metric.name for one in found if one.row == "2:8"][-1] == "coverage"  # after those of every suite


def test_seeds_count_for_an_added_metric_as_for_the_others(tmp_path):
    def change(k):
        return with_figures(coverage=(0.8, 0.8))(k)

    one = write_history(tmp_path / "one", 8, change, rows=2, seeds=1)
    two = write_history(tmp_path / "two", 8, change, rows=2, seeds=2)
    assert len(of(series_of(read_runs([*one, *two])[0]), "coverage")) == 2


@pytest.mark.parametrize("name", ["../coverage", "a b", "", "fid", "x" * 300])
def test_a_record_cannot_choose_a_file_or_take_the_name_of_another_figure(tmp_path, name):
    found = [one.metric.name for one in history(tmp_path, with_figures(**{name: (0.8, 0.7)})) if one.row == "2:8"]
    assert found == [one.metric.name for one in history(tmp_path) if one.row == "2:8"]


def conditions(k, **changes):
    return {**NUMERICS, "device_name": "Example GPU", "versions": VERSIONS} | (changes if k >= NIGHTS // 2 else {})


def test_runs_stand_in_the_order_of_their_commits_whatever_the_order_given(tmp_path):
    folders = write_history(tmp_path, 4, rows=1, seeds=1)
    late = plan_of(folders[0])["git"]
    edit_plan(folders[0], started="2027-01-01T00:00:00+00:00")  # an old commit, run again much later
    runs, _ = read_runs(folders[::-1])
    assert [run.path for run in runs] == folders and runs[0].commit == late["commit"]


def test_a_run_says_its_commit_and_whether_the_checkout_was_changed_else_version_and_date(tmp_path):
    folders = write_history(tmp_path, 3, rows=1, seeds=1)
    edit_plan(folders[1], git=plan_of(folders[1])["git"] | {"changed": True})
    edit_plan(folders[2], git=None)
    labels = [run.label for run in read_runs(folders)[0]]
    assert labels == [commit_of(0)[:7], commit_of(1)[:7] + "*", "0.1.0 2026-03-03"]


def test_a_run_of_a_commit_without_a_date_stands_where_it_was_started(tmp_path):
    folder = write_run(tmp_path, 0, night(0, rows=1, seeds=1))
    without_date = {"commit": "a" * 40, "changed": False}
    (folder / "plan.json").write_text(json.dumps(plan_of(folder) | {"git": without_date}))
    ((run,), _) = read_runs([folder])
    assert run.time == run.started and run.label == "aaaaaaa"


def test_folders_that_give_no_run_are_left_out_with_the_reason_and_the_others_kept(tmp_path):
    good, empty, torn, failed, untimely = (tmp_path / name for name in ("good", "empty", "torn", "failed", "untimely"))
    (tmp_path / "log").touch()
    records = night(0, rows=1, seeds=1)
    for folder in (good, torn, failed, untimely):
        write_run(folder, 0, records)
    empty.mkdir()
    (torn / "cells" / records[0].cell / "record.json").write_text("{")
    write_run(failed, 0, [records[0].model_copy(update={"status": "failed"})])
    edit_plan(untimely, started="yesterday")
    runs, left_out = read_runs(
        [good, empty, torn, failed, untimely, good / ".." / "good", *(tmp_path / name for name in ("nowhere", "log"))]
    )
    assert [run.path for run in runs] == [good]
    told = {left.path.name: left.reason for left in left_out}
    expected = {
        "empty": "no plan.json", "torn": "cannot be read", "failed": "no finished cell", "untimely": "'yesterday'",
        "good": "given twice", "log": "is not a folder", "nowhere": "no plan.json",
    }  # fmt: skip
    assert told.keys() == expected.keys() and all(expected[name] in told[name] for name in told)
    assert all(left.path.name in left.reason for left in left_out)
    with pytest.raises(UserError, match="no run to show"):
        read_runs([empty, torn])


def test_a_slow_down_is_told_of_its_row_and_metric_alone_at_its_commit(tmp_path):
    slower = lambda k: lambda r: scaled(r, step_time=1.08) if r.row == "2:8" and k >= 7 else r  # noqa: E731
    (found,) = [(one, change) for one in history(tmp_path, slower) for change in one.changes]
    series, change = found
    assert (series.row, series.metric.name, change.last, change.first) == ("2:8", "step_time_probes", 6, 7)
    assert change.effect == "worse" and change.share == pytest.approx(0.08, abs=0.03)


def test_one_parameter_more_is_found_always_and_after_one_run(tmp_path):
    def more(k):
        return lambda r: r.model_copy(update={"cost": r.cost.model_copy(update={"params": r.cost.params + (k == 2)})})

    (series,) = of(history(tmp_path, more, nights=3), "params")
    ((change,)) = series.changes
    assert (change.before + 1, change.first, change.effect) == (change.after, 2, "changed")


@pytest.mark.parametrize("metric", ["step_time_ms", "speedup", "peak_memory_mib", "validation_loss", "fid"])
def test_runs_on_another_device_are_another_series(tmp_path, metric):
    folders = write_history(tmp_path, NIGHTS, lambda k: without_probe, rows=2)
    for k, folder in enumerate(folders):
        write_run(folder, k, night(k, rows=2, change=without_probe), {"numerics": conditions(k, device_name="B")})
    found = of(series_of(read_runs(folders)[0]), metric)
    assert [one.apart for one in found] == [{"device_name": "Example GPU"}, {"device_name": "B"}]
    assert [len(one.runs) for one in found] == [NIGHTS // 2] * 2 and not any(one.is_enough for one in found)


def without_probe(record):
    return record.model_copy(update={"timing": record.timing.model_copy(update={"probe_ms": None})})


def test_another_version_of_this_program_is_what_a_series_goes_along(tmp_path):
    folders = write_history(tmp_path, NIGHTS, rows=2)
    for k, folder in enumerate(folders):
        write_run(folder, k, night(k, rows=2), {"versions": VERSIONS | {"tread-bench": f"0.{k}"}})
    assert len(of(series_of(read_runs(folders)[0]), "fid")) == 1


def test_step_times_with_and_without_a_probe_are_different_figures(tmp_path):
    series = history(tmp_path, lambda k: without_probe if k < 3 else lambda r: r)
    assert [len(one.runs) for one in of(series, "step_time_ms")] == [3]
    assert [len(one.runs) for one in of(series, "step_time_probes")] == [NIGHTS - 3]


def test_an_allocators_peak_and_a_resident_set_are_never_mixed(tmp_path):
    def kind(k):
        return lambda r: r.model_copy(
            update={"timing": r.timing.model_copy(update={"memory_kind": "allocator" if k < 3 else "resident set"})}
        )

    found = of(history(tmp_path, kind), "peak_memory_mib")
    assert [(one.apart, len(one.runs)) for one in found] == [
        ({"memory": "allocator"}, 3),
        ({"memory": "resident set"}, NIGHTS - 3),
    ]


@pytest.mark.parametrize("change", [{"protocol": "other"}, {"iteration": 2400}])
def test_fids_of_another_protocol_or_iteration_are_never_compared(tmp_path, change):
    def other(k):
        return lambda r: r.model_copy(
            update={"evaluations": [*r.evaluations[:-1], r.last.model_copy(update=change if k >= 6 else {})]}
        )

    assert [set(one.apart) for one in of(history(tmp_path, other), "fid")] == [set(change)] * 2


def test_a_run_that_lacks_a_seed_is_no_change_of_quality(tmp_path):
    folders = write_history(tmp_path, NIGHTS, rows=2, seeds=3)
    folders[-1] = write_run(tmp_path / "short", NIGHTS - 1, night(NIGHTS - 1, rows=2, seeds=2))
    series = series_of(read_runs(folders)[0])
    assert [one.apart for one in of(series, "fid")] == [{"seeds": [0, 1, 2]}, {"seeds": [0, 1]}]
    assert len(of(series, "step_time_probes")) == 1 and not any(one.changes for one in series)


@pytest.mark.parametrize(
    ("place", "metrics"), [("timed_under", {"step_time_probes", "speedup"}), ("begun_under", {"fid"})]
)
def test_what_was_begun_or_timed_under_other_conditions_stands_apart(tmp_path, place, metrics):
    folders = write_history(tmp_path, 2, rows=2)
    records = night(1, rows=2)
    other = conditions(NIGHTS, torch="2.0")
    write_run(folders[1], 1, records)
    for one in records:
        path = folders[1] / "cells" / one.cell / "record.json"
        content = json.loads(path.read_text())
        content["conditions"][place] = [other] if place == "begun_under" else other
        path.write_text(json.dumps(content))
    series = series_of(read_runs(folders)[0])
    assert {metric for metric in ("step_time_probes", "speedup", "fid") if len(of(series, metric)) == 2} == metrics


def asked(record, **keys):
    """The record as of a cell asked for with other keys of its training."""
    return record.model_copy(update={"config": record.config | {"training": record.config["training"] | keys}})


def test_another_configuration_is_another_series_and_no_change_of_any_commit(tmp_path):
    def slower_learner(k):
        worse = lambda e: e.model_copy(update={"validation_loss": 1.1 * e.validation_loss})  # noqa: E731
        return lambda r: (
            asked(r, learning_rate=0.1).model_copy(update={"evaluations": [worse(e) for e in r.evaluations]})
            if k >= 9 else r
        )  # fmt: skip

    series = history(tmp_path, slower_learner, nights=2 * MIN_RUNS + 2)
    found = of(series, "validation_loss")
    assert [set(one.apart) for one in found] == [{"training.learning_rate"}] * 2
    assert [len(one.runs) for one in found] == [9, 9] and all(one.is_enough for one in series)
    assert not any(one.changes for one in series)
    assert len(of(series, "step_time_probes")) == 1  # a learning rate makes no step slower


def test_a_key_that_is_younger_than_a_record_and_a_file_that_lies_elsewhere_set_no_series_apart():
    cell = load_plan(find_suite("smoke")).cells[0].cell.model_dump(mode="json")
    older = {key: value for key, value in cell.items() if key not in ("schedule", "auxiliary")}
    assert of_quality(older) == of_quality(cell) != of_quality(cell | {"selector": "rows"})
    there, here = ({"metrics": {"extractor_weights": f"/{place}/net.safetensors"}} for place in ("a", "b"))
    assert of_quality(there) == of_quality(here) and of_step(there) == {}
    there, here = ({"auxiliary": [{"name": "repa", "file": f"/{place}/net.safetensors"}]} for place in ("a", "b"))
    assert of_step(there) == of_step(here) != of_step({})


def test_a_dense_row_has_no_speed_up_over_itself(tmp_path):
    series = history(tmp_path, nights=1)
    assert of(series, "speedup") and not of(series, "speedup", row="dense")


def test_short_series_say_nothing(tmp_path):
    halved = lambda k: lambda r: scaled(r, step_time=0.5 if k >= 4 else 1.0)  # noqa: E731
    series = history(tmp_path, halved, nights=MIN_RUNS - 1)
    assert not any(one.changes or one.is_enough for one in series if not one.metric.is_exact)


def test_a_run_stands_after_one_of_the_same_commit_that_began_earlier(tmp_path):
    folders = write_history(tmp_path, 2, rows=1, seeds=1)
    edit_plan(folders[0], git=plan_of(folders[1])["git"])
    later = datetime.fromisoformat(plan_of(folders[1])["started"]) + timedelta(hours=1)
    edit_plan(folders[0], started=later.isoformat())
    assert [run.path for run in read_runs(folders)[0]] == folders[::-1]
