from __future__ import annotations

import pytest

from tread_bench.core.stored.records import GpuConditions
from tread_bench.regression.compare import moved

QUIET = GpuConditions(
    sm_clock_mhz=1980,
    memory_clock_mhz=3201,
    temperature_c=50,
    throttle_reasons=["software power cap"],
    power_limit_w=700.0,
    other_processes=0,
)


def with_(**changes):
    return QUIET.model_copy(update=changes)


def test_a_gpu_that_stays_as_it_is_has_not_moved():
    assert moved(QUIET, QUIET) == []


@pytest.mark.parametrize(
    "change",
    [{"sm_clock_mhz": 1881}, {"sm_clock_mhz": 2079}, {"throttle_reasons": ["GPU idle"]}],
)
def test_what_boost_and_load_do_by_themselves_is_no_move(change):
    assert moved(QUIET, with_(**change)) == []


def test_a_clock_that_moves_is_reported_with_both_values():
    assert moved(QUIET, with_(sm_clock_mhz=1880)) == ["its clock went from 1980 to 1880 MHz"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"throttle_reasons": ["hardware thermal slowdown"]}, "it was throttled (hardware thermal slowdown)"),
        ({"other_processes": 2}, "other processes computed on it (2)"),
    ],
)
def test_a_disturbance_counts_whenever_it_is_seen(change, told):
    assert moved(QUIET, with_(**change)) == moved(with_(**change), QUIET) == [told]


def test_what_is_not_known_says_nothing():
    assert moved(None, QUIET) == moved(QUIET, None) == moved(None, None) == []
    unknown = GpuConditions(power_limit_w=700.0)
    assert moved(unknown, QUIET) == moved(QUIET, unknown) == []
