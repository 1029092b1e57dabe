"""results.csv keeps its contract, and the comparison pairs what belongs together."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest
from synthetic_records import HOSTILE, architectures, evaluation, failed, of_family, record, study, timing, view_of

from tread_bench.core.numbers.statistics import mean_interval
from tread_bench.core.stored.records import Evaluation
from tread_bench.reports.differences import ITERATIONS, differences
from tread_bench.reports.frame import COLUMNS, recovered_at, results_frame, rows_frame, write_csv
from tread_bench.reports.row import side_by_side
from tread_bench.reports.study import Study

CONTRACT = """
cell, suite, backbone, family, method, routes, rate, selector, guidance, guidance_scale, seed, iteration, status,
reason, params, tokens_kept, forward_macs, train_step_macs, gmacs, gflops, images_per_s, step_time_ms, ideal_speedup,
speedup, speedup_low, speedup_high, train_seconds, peak_memory_mib, validation_loss, fid, sfid, kid, inception_score,
precision, recall, num_samples, protocol, precision_mode, kernels, threads, device"""


def by_name(rows):
    return {row.name: row for row in rows}


def test_the_columns_of_the_contract_come_first_and_in_order(records):
    contract = [name.strip() for name in CONTRACT.split(",")]
    columns = list(results_frame(records).columns)
    assert columns[: len(contract)] == contract and columns == [column.name for column in COLUMNS]


def test_the_documentation_defines_every_column():
    page = Path(__file__).parents[2] / "docs" / "methods" / "results-csv.md"
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert lines == [f"| `{column.name}` | {column.unit} | {column.definition} |" for column in COLUMNS]


def test_one_row_per_cell_and_evaluated_iteration(records):
    frame = results_frame(records)
    assert len(frame) == 34 * 2 + 1
    lost = frame[frame.status == "failed"].iloc[0]
    assert (lost.reason, lost.seed) == (HOSTILE, 4)
    assert lost[["iteration", "fid", "speedup"]].isna().all()


def test_the_frame_by_row_has_means_over_finished_seeds_at_the_last_iteration(records):
    rows = rows_frame(results_frame(records)).set_index("row")
    fids = [one.last.fid for one in records if one.row == "0:10" and one.status == "done"]
    expected = mean_interval(fids)
    line = rows.loc["0:10"]
    assert [line.fid, line.fid_low, line.fid_high] == pytest.approx([expected.mean, expected.low, expected.high])
    assert (line.seeds, line.iteration, line.forward_macs) == (4, 1200, records[-1].cost.forward_macs)
    alone = rows_frame(results_frame(study(1)))
    assert alone.fid.notna().all() and alone.fid_low.isna().all() and alone.sfid.isna().all()
    assert list(rows_frame(results_frame([])).columns) == list(alone.columns)
    (timed,) = rows_frame(results_frame([record("timed", "2:8@0.5", 0, None, evaluations=[])])).itertuples()
    assert timed.speedup > 1 and math.isnan(timed.fid) and timed.seeds == 1


def test_every_setting_has_a_column_of_its_own():
    config = {
        "data": {"name": "digits"},
        "training": {"iterations": 1200, "batch": 64, "learning_rate": 3e-4},
        "schedule": {"warmup": 0.1, "until": 0.8},
        "sampling": {"sampler": "heun", "steps": 20, "guidance": {"name": "sparse", "strong": 0.5, "weak": 0.9}},
    }
    two = record("two", "2:4@0.5,6:8@0.25", 0, 20.0, config=config)
    frame = results_frame([record("dense", "", 0, 18.0), two])
    routed, dense = frame[frame.row == "two"].iloc[-1], frame[frame.row == "dense"].iloc[-1]
    assert (routed.batch, routed.learning_rate, routed.sampler, routed.sampling_steps) == (64, 3e-4, "heun", 20)
    assert (routed.num_routes, routed.route_start, routed.route_end, routed.route_rate) == (2, 2, 4, 0.5)
    assert (routed.num_blocks, routed.dense_tokens, routed.tokens_kept, dense.tokens_kept) == (12, 16, "8,12", "")
    macs = 50_000 * (6 * 16 + 3 * 8 + 3 * 12) + 400_000
    assert (routed.forward_macs, routed.gmacs, routed.gflops) == (macs, macs / 1e9, 2 * macs / 1e9)
    assert routed.precision_mode == "autocast=none, matmul_precision=highest"
    assert routed.kernels == "attention=torch, scan=torch"
    assert routed.guidance_rule == "sparse"
    assert dense.num_routes == 0 and dense[["route_start", "route_end", "route_rate"]].isna().all()
    assert [str(frame[name].dtype) for name in ("route_start", "route_end", "batch")] == ["Int64"] * 3


def test_a_text_is_protected_from_spreadsheets_in_the_file_alone(tmp_path):
    frame = results_frame([record("-dense", "", 0, 18.0)])
    write_csv(frame, tmp_path / "a.csv")
    assert set(frame.row) == {"-dense"} and (tmp_path / "a.csv").read_text().count(",'-dense,") == len(frame)


def test_the_file_is_the_same_for_any_order_and_reads_back_exactly(records, tmp_path):
    write_csv(results_frame(records), tmp_path / "a.csv")
    write_csv(results_frame([*reversed(records)]), tmp_path / "b.csv")
    content = (tmp_path / "a.csv").read_bytes()
    assert content == (tmp_path / "b.csv").read_bytes()
    lines = list(csv.DictReader(io.StringIO(content.decode())))
    fids = [e.fid for r in records for e in r.evaluations]
    assert sorted(float(line["fid"]) for line in lines if line["fid"]) == sorted(fids)
    assert {line["reason"] for line in lines} == {"", HOSTILE}

    # No records give a header.
    write_csv(results_frame([]), tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text().startswith("cell,suite,backbone") and Study([]).rows == []


def test_a_row_that_failed_altogether_stays_with_its_group():
    records = [record("dense", "", 0, 17.0), failed("2:8", "2:8@0.5", 0, "diverged at step 812")]
    rows = Study(records).rows
    assert len({row.group for row in rows}) == 1
    assert rows[1].fid is None and len(differences(results_frame(records))) == 0


def test_rows_of_different_protocols_are_never_ranked_together():
    other = [record("2:8", "2:8@0.5", s, 1.0, evaluations=[evaluation(1200, 1.0, "other")]) for s in range(3)]
    records = [record("dense", "", s, 17.0) for s in range(3)] + other
    rows = Study(records).rows
    assert len({row.group for row in rows}) == 2
    assert all(row.is_lowest_fid for row in rows)  # each the lowest of its own group
    assert len(differences(results_frame(records))) == 0


def test_rows_of_different_objectives_are_never_ranked_together():
    edm = {"name": "edm", "p_mean": -1.2, "p_std": 1.2, "sigma_data": 0.5}
    objectives = {"flow": {"name": "flow"}, "edm": edm, "edm of wide data": {**edm, "sigma_data": 0.75}}
    rows = Study(record(name, "", 0, 20.0, config={"objective": one}) for name, one in objectives.items()).rows
    shared = "p_mean -1.2, p_std 1.2"
    assert [row.group.objective for row in rows] == [
        *(f"edm ({shared}, sigma_data {width})" for width in (0.5, 0.75)),
        "flow",
    ]
    assert len({row.group.protocol for row in rows}) == 1 and all(row.is_lowest_fid for row in rows)
    (together,) = side_by_side(rows)  # each with its own name, as architectures are
    assert [row.architecture for row in together] == ["edm (sigma_data 0.5)", "edm (sigma_data 0.75)", "flow"]

    # Losses under two of them are other quantities, also where a record names the other's cell as its reference.
    dense = record("dense", "", 0, 20.0, config={"objective": {"name": "flow"}})
    routed = [record("2:8", "2:8@0.5", 0, 19.0, config={"objective": one}) for one in ({"name": "flow"}, edm)]
    assert [len(differences(results_frame([dense, one]))) > 0 for one in routed] == [True, False]


def test_the_macs_of_a_long_training_are_numbers_like_others():
    """A training of DiT-XL/2 takes more of them than 64 bits count."""
    last = Evaluation.model_validate({**evaluation(1200, 20.0).model_dump(), "training_macs": 36 * 10**18})
    one = record("dense", "", 0, 20.0).model_copy(update={"evaluations": [last]})
    assert results_frame([one]).training_macs.dtype == "float64"


def test_differences_pair_the_same_iteration():
    routed = record("2:8", "2:8@0.5", 0, 20.0, evaluations=[evaluation(400, 60.0)])
    dense = record("dense", "", 0, 17.0, evaluations=[evaluation(400, 50.0), evaluation(1200, 17.0)])
    row = by_name(Study([dense, routed]).rows)["2:8"]
    assert row.difference(ITERATIONS).mean == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("name", "routes", "unsaid"),
    [
        ("dense", "", ""),
        ("2:8", "2:8@0.5", ""),
        ("tread-2:8", "2:8@0.5", ""),
        ("early", "0:4@0.5", "0:4@0.5"),
        ("2:4 twice", "2:4@0.5,6:8@0.5", "2:4@0.5,6:8@0.5"),
    ],
)
def test_a_row_is_called_as_in_its_suite_and_what_the_name_lacks_is_added(name, routes, unsaid):
    (row,) = Study([record(name, routes, 0, 20.0)]).rows
    assert (row.name, row.short_label, row.unsaid) == (name, name, unsaid)
    (skipping,) = Study([record(name, routes, 0, 20.0, method="layer_skip")]).rows
    assert skipping.unsaid == (f"layer_skip {unsaid}".strip() if routes else "")
    assert not Study([record("layer-skip 0:4", "0:4@0.5", 0, 20.0, method="layer_skip")]).rows[0].unsaid


def test_beside_its_architecture_a_row_is_called_without_the_settings_of_a_matrix_that_name_it():
    rows = Study(architectures(1)).rows
    assert [row.name for row in rows[:2]] == ["dense backbone=DRWKV", "tread-blocks backbone=DRWKV"]
    assert [row.short_label for row in rows[:3]] == ["dense", "tread-blocks", "dense"]
    twice = [of_family("DiT", 0), of_family("ZigMa", 0)]
    twice += [of_family("DiT", 0, "random", row=f"tread rate={rate}", cell=rate) for rate in ("0.3", "0.5")]
    assert [row.short_label for row in Study(twice).rows] == ["dense", "tread rate=0.3", "tread rate=0.5", "dense"]


def test_architectures_of_one_name_keep_the_sizes_that_they_do_not_share():
    other = of_family("DiT", 0, backbone="DiT (depth 6, hidden 64)", cell="small")
    rows = Study([of_family("DiT", 0), other]).rows
    assert [row.architecture for row in rows] == ["DiT (depth 12, heads 4, patch 2)", "DiT (depth 6)"]


def test_a_measurement_that_seeds_share_counts_once():
    shared, other = timing(1.2, 0), timing(1.2, 1)
    one = Study([record("2:8", "2:8@0.5", s, 20.0, timing=shared) for s in range(5)]).rows[0]
    assert one.speedup == (shared.speedup, shared.speedup_low, shared.speedup_high)
    two = Study([record("2:8", "2:8@0.5", s, 20.0, timing=t) for s, t in enumerate((shared, other))]).rows[0]
    assert len(two.timings) == 2 and two.speedup[1] < 1.2 < two.speedup[2]


def test_the_rate_of_a_row_is_the_dense_rate_of_the_run_times_its_speed_up_in_table_and_file():
    """As when a neighbour slowed the machine down while one row was timed: its own steps took three times as long."""
    quiet = timing(1.25, 0)
    own = ("step_times_ms", "reference_step_times_ms")
    slowed = {name: [3 * ms for ms in getattr(quiet, name)] for name in own}
    loaded = quiet.model_copy(update={**slowed, "step_time_ms": 3 * quiet.step_time_ms, "images_per_s": 1.0})
    records = [
        record("dense", "", 0, 17.0, 1.0),
        record("1:8", "1:8@0.5", 0, 18.0, 1.22),
        record("2:8", "2:8@0.5", 0, 18.0, timing=loaded),
    ]
    frame = results_frame(records).drop_duplicates("cell").set_index("row")
    dense = frame.images_per_s["dense"]
    assert dense == pytest.approx(64 / 60e-3, rel=0.03)  # the slowed steps are a third of all dense ones
    for row in ("1:8", "2:8"):
        assert frame.images_per_s[row] / dense == pytest.approx(frame.speedup[row])
    shown = dict(zip(frame.index, view_of(records).columns["Images/s"].entries, strict=True))
    assert {row: entry.key for row, entry in shown.items()} == pytest.approx(frame.images_per_s.to_dict())


def test_steps_of_another_batch_or_architecture_give_no_dense_rate():
    shapes = {"batch": timing(1.2, 1).model_copy(update={"batch": 8}), "architecture": timing(1.2, 1)}
    for name, other in shapes.items():
        changes = {"backbone": "DiT-S/2"} if name == "architecture" else {}
        slower = other.model_copy(update={"reference_step_times_ms": [600.0] * 20})
        odd = record("dense", "", 1, 17.0, timing=slower, cell="odd", **changes)
        frame = results_frame([record("dense", "", 0, 17.0, 1.0), odd]).drop_duplicates("cell").set_index("cell")
        assert frame.images_per_s["odd"] == pytest.approx(slower.batch / 0.6)
        assert frame.images_per_s["dense-dense-0"] == pytest.approx(64 / 60e-3, rel=0.03)


def test_the_parts_of_a_comparison_have_an_entry_of_each_row_by_reference_place_and_controls():
    view = view_of([record("skip", "1:8@0.5", 0, 18.0, method="layer_skip"), *study(1)])
    assert [row.name for row in view.members] == ["dense", "0:8", "0:10", "1:8", "2:8", "2:10", "4:8", "skip"]
    assert [*view.parts] == ["FID", "Other metrics", "Cost and speed"]
    assert sum(map(len, view.parts.values())) == len(view.columns)
    assert {len(column.entries) for column in view.columns.values()} == {len(view.members)}


def recovering(row, routes, seed, losses):
    """A cell with these validation losses by iteration."""
    found = [evaluation(at, 17.0).model_copy(update={"validation_loss": loss}) for at, loss in losses.items()]
    return record(row, routes, seed, 17.0, evaluations=found)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({0: 1.0, 5: 1.2, 10: 1.0, 20: 0.9}, 10),
        ({0: 1.0, 5: 1.2, 10: 0.9, 20: 1.1, 40: 0.8}, 40),  # it was back once before
        ({0: 1.0, 5: 0.9, 10: 0.8}, 0),  # never above
        ({0: 1.0, 5: 1.2, 10: 1.1}, None),  # not yet
        ({5: 1.2, 10: 0.9}, None),  # not evaluated at its start
        ({0: 1.0}, None),
        ({}, None),
    ],
)
def test_a_training_has_recovered_from_where_on_its_loss_is_not_above_the_first_one(losses, expected):
    assert recovered_at(recovering("dense", "", 0, losses)) == expected


def test_the_table_shows_the_last_seed_to_recover_and_rows_that_did_not():
    """A column for rows that were evaluated before their first step, and none without such rows."""
    back = {0: 1.0, 25: 1.2, 400: 0.9}, {0: 1.0, 25: 1.2, 100: 1.0, 400: 0.9}
    not_back = {0: 1.0, 400: 0.9}, {0: 1.0, 400: 1.1}
    cells = [recovering("dense", "", seed, losses) for seed, losses in enumerate(back)]
    cells += [recovering("2:8", "2:8@0.5", seed, losses) for seed, losses in enumerate(not_back)]
    shown = [(cell.text, cell.below) for cell in view_of(cells).columns["Recovered at"].entries]
    assert shown == [("400", ""), ("not reached", "by 1 of 2 seeds")]
    assert "Recovered at" not in view_of([record("dense", "", 0, 17.0)]).columns
