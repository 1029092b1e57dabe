"""The checks that the authors of backbones, methods and wrapped networks run.

from tread_bench.contract import check_backbone

def test_the_contract_holds():
    assert check_backbone(FAMILY, FAMILY.spec(depth=4, hidden=32, image_size=8)) == []
"""

from __future__ import annotations

from tread_bench.core.describe.violations import Violation
from tread_bench.model.contract.backbones import check_backbone
from tread_bench.model.contract.methods import check_method
from tread_bench.model.contract.wrapped import check_wrapped

__all__ = [
    "Violation",
    "check_backbone",
    "check_method",
    "check_wrapped",
]
