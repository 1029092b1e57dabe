"""Which conditions change figures, and what a record tells of them."""

from __future__ import annotations

import pytest

from tread_bench.core.conditions import EARLIER, TIMED, all_of, conditions, differences, spread

PLAN = {
    "numerics": {
        "device": "cpu", "device_count": 1, "device_name": "A", "cpu_capability": "AVX2", "threads": 1,
        "matmul_precision": "highest", "matmul_relative_error": 3e-7, "autocast": "none", "torch": "2.9.0+cpu",
        "blas_kernels": "Haswell",
        "kernels": {"scan": "torch"},
    },
    "versions": {
        "python": "3.11.7", "tread-bench": "0.1.0", "torch": "2.9.0+cpu", "timm": "1.0", "torch-fidelity": "0.4.0",
        "numpy": "2.0", "pandas": "2.2", "scikit-learn": "1.5",
    },
}  # fmt: skip
LAST_DIGITS = ("device_count", "matmul_relative_error", "blas_kernels")


def changed(part, key, value):
    return conditions({**PLAN, part: {**PLAN[part], key: value}})


def test_equal_conditions_do_not_differ():
    assert differences(conditions(PLAN), conditions(PLAN)) == []


@pytest.mark.parametrize(
    ("part", "key"),
    [
        *(("numerics", key) for key in PLAN["numerics"] if key not in LAST_DIGITS),
        *(("versions", key) for key in ("tread-bench", "timm", "torch-fidelity", "numpy", "mamba-ssm")),
    ],
)
def test_what_can_change_a_bit_of_a_figure_is_told(part, key):
    before = PLAN[part].get(key)
    assert differences(conditions(PLAN), changed(part, key, "new")) == [f"{key} was {before!r}, is 'new'"]


@pytest.mark.parametrize(
    ("part", "key"),
    [("numerics", key) for key in LAST_DIGITS] + [("versions", key) for key in ("python", "pandas", "scikit-learn")],
)
def test_what_changes_no_figure_is_no_difference(part, key):
    assert differences(conditions(PLAN), changed(part, key, "new")) == []


def test_a_record_that_was_begun_or_timed_under_others_spreads_by_itself():
    now, old = conditions(PLAN), changed("numerics", "device_name", "B")
    assert spread(all_of(now)) == {}
    for about in ({EARLIER: [old]}, {TIMED: old}):
        assert spread(all_of({**now, **about})) == {"device_name": ["A", "B"]}
    assert spread([now, changed("versions", "numpy", "2.1")]) == {"numpy": ["2.0", "2.1"]}
