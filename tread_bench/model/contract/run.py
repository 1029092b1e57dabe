"""The contract of backbones, as checks for authors of adapters to run.

    from tread_bench.model.contract.run import check_backbone

    def test_the_contract_holds():
        assert check_backbone(FAMILY, FAMILY.spec(depth=4, hidden=32, image_size=8)) == []

A small spec is enough, and quick: every route that the family accepts is tried. Weights are moved away from their
initial values first, so that a layer that starts at zero hides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.model.contract.checks import CHECKS
from tread_bench.model.contract.subject import Subject


def check_backbone(
    family: Family, spec: BackboneSpec, *, kernels: Mapping[str, str] | None = None, device: str = "cpu"
) -> list[Violation]:
    """Return the violations of the contract by a backbone, in the order of `CHECKS`; empty if there are none.

    Args:
        family, spec: what to build; a few blocks, a narrow width and 16 tokens are enough.
        kernels: same as for `create_backbone`.
        device: "cpu" or "cuda".

    Raises:
        ValueError: fewer than 4 image tokens.
    """
    with torch.random.fork_rng(devices=[]):
        subject = Subject(family, spec, kernels, device)
        return run_checks(CHECKS, subject)
