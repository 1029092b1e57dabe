from __future__ import annotations

import time

import pytest
import torch

from tread_bench.measure.speed.parts import host_share

CPU = torch.device("cpu")


@pytest.mark.plain_bits
def test_operators_take_their_time_the_host_the_rest_and_inputs_are_prepared_before_the_profile():
    matrix = torch.randn(400, 400, requires_grad=True)

    def ready():
        time.sleep(0.05)
        return lambda: (matrix @ matrix).sum().backward()

    assert 0 <= host_share(ready, CPU) < 0.5
    assert host_share(lambda: lambda: time.sleep(0.01), CPU) > 0.9
