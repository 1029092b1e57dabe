"""How the speed phase spends its time."""

from __future__ import annotations

import pytest

from tread_bench.cell.speed import profiled_steps


@pytest.mark.parametrize(
    ("pairs", "step_ms", "steps"),
    [(20, 10.0, 3), (20, 400.0, 2), (20, 30_000.0, 1), (6, 10.0, 3), (5, 10.0, 2), (1, 10.0, 1)],
)
def test_the_profile_takes_no_longer_than_a_second_or_half_of_the_pairs_but_for_one_step(pairs, step_ms, steps):
    assert profiled_steps(pairs, step_ms) == steps
