"""Rules of guidance are found by what they announce, and one that leaves something out says what."""

from __future__ import annotations

import pytest

from tread_bench.core.describe.guidance import guidance_rules

SETTINGS = {"sparse": {"snapshot": 3}, "autoguidance": {"row": "small", "snapshot": 3}}


@pytest.mark.parametrize("name", guidance_rules())
def test_what_our_rules_say_of_themselves_agrees_with_their_branches(name):
    rule = guidance_rules()[name].options(**{"name": name, **SETTINGS.get(name, {})})
    branches = [branch for branch in rule.branches if branch is not None]
    assert len(rule.rates) in (0, len(branches))
    assert any(branch.other_weights for branch in branches) == (rule.weak_snapshot is not None)
    assert rule.routed_blocks is not None or not (rule.rates or any(branch.drops_path for branch in branches))
