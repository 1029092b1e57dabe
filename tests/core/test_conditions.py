"""Which conditions change figures, and what a record tells of them."""

from __future__ import annotations

import pytest

from tread_bench.core.stored.conditions import Conditions, decisive_to_the_bit, differences
from tread_bench.reports.cautions import all_of, spread

NUMERICS = {
    "device": "cpu", "device_count": 1, "device_name": "A", "cpu_capability": "AVX2", "threads": 1,
    "matmul_precision": "highest", "matmul_relative_error": 3e-7, "autocast": "none", "torch": "2.9.0+cpu",
    "blas_kernels": "Haswell",
    "kernels": {"scan": "torch"},
}  # fmt: skip
VERSIONS = {
    "python": "3.11.7", "tread-bench": "0.1.0", "torch": "2.9.0+cpu", "timm": "1.0", "torch-fidelity": "0.4.0",
    "numpy": "2.0", "pandas": "2.2", "scikit-learn": "1.5",
}  # fmt: skip
NOW = Conditions(**NUMERICS, versions=VERSIONS)
NO_FIGURE = ("device_count", "matmul_relative_error", "blas_kernels", "python", "pandas", "scikit-learn")


def changed(key, value):
    return NOW.model_copy(update={key: value} if key in NUMERICS else {"versions": {**VERSIONS, key: value}})


@pytest.mark.parametrize("key", sorted({*NUMERICS, *VERSIONS, "mamba-ssm"}))
def test_what_can_change_a_bit_of_a_figure_is_told_and_nothing_else(key):
    before = (VERSIONS | NUMERICS).get(key)
    now = {"scan": "new"} if key == "kernels" else "new"
    told = [] if key in NO_FIGURE else [f"{key} was {before!r}, is {now!r}"]
    assert differences(NOW, changed(key, now)) == told


def test_what_draws_are_from_is_told_on_a_gpu():
    """Before it was written, they were the host's."""
    before = changed("device", "cuda")
    now = before.model_copy(update={"draws": "device"})
    assert differences(before, now) == ["draws was 'host', is 'device'"]
    assert spread([before, now]) == {"draws": ["device", "host"]}
    assert "draws" not in NOW.model_dump()


def test_the_number_of_processes_changes_last_digits_alone():
    two = NOW.model_copy(update={"processes": 2})
    assert differences(NOW, two) == []
    assert decisive_to_the_bit(two) == decisive_to_the_bit(NOW) | {"processes": 2}


def test_a_record_that_was_begun_or_timed_under_others_spreads_by_itself():
    old = changed("device_name", "B")
    assert spread(all_of(NOW)) == {}
    for about in ({"begun_under": [old]}, {"timed_under": old}):
        assert spread(all_of(NOW.model_copy(update=about))) == {"device_name": ["A", "B"]}
    assert spread([NOW, changed("numpy", "2.1")]) == {"numpy": ["2.0", "2.1"]}


def test_another_version_of_a_plug_in_is_told_where_both_have_it():
    old, new = (changed("plug-in fill", version) for version in ("1", "2"))
    assert differences(old, new) == ["plug-in fill was '1', is '2'"]
    assert differences(NOW, old) == differences(old, NOW) == []
    assert spread([NOW, old, new]) == {"plug-in fill": ["1", "2"]}
