"""What every backbone keeps to, as checks that the author of an adapter runs.

    from tread_bench.model.contract.run import check_backbone

    def test_the_contract_holds():
        assert check_backbone(FAMILY, FAMILY.spec(depth=4, hidden=32, image_size=8)) == []

A small spec is enough, and quick: every route that the family accepts is tried. Weights are moved away from their
initial values first, so that a layer that starts at zero hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch

from tread_bench.core.families import BackboneSpec, Family
from tread_bench.model.contract.checks import CHECKS, Check
from tread_bench.model.contract.subject import Subject

__all__ = ["CHECKS", "Check", "Subject", "Violation", "check_backbone", "run_check"]

Tried = TypeVar("Tried")


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a plug-in breaks: the check that says so, what it expected and what it saw."""

    check: str
    message: str

    def __str__(self) -> str:
        return f"{self.check}: {self.message}"


def run_check(check: Callable[[Tried], Iterator[str]], subject: Tried) -> list[Violation]:
    """What one check finds; an error that the plug-in raises is a finding."""
    found: list[Violation] = []
    name = check.__name__.removeprefix("check_")
    try:
        found.extend(Violation(name, message) for message in check(subject))
    except Exception as error:  # whatever an adapter raises, the other checks go on
        found.append(Violation(name, f"raised {type(error).__name__}: {error}"))
    return found


def check_backbone(
    family: Family, spec: BackboneSpec, *, kernels: Mapping[str, str] | None = None, device: str = "cpu"
) -> list[Violation]:
    """All that a backbone breaks of the contract, in the order of `CHECKS`; an empty list where nothing is wrong.

    Args:
        family, spec: what to build; a few blocks, a narrow width and 16 tokens are enough.
        kernels: as for `create_backbone`.
        device: "cpu" or "cuda".

    Raises:
        ValueError: fewer than 4 image tokens.
    """
    with torch.random.fork_rng(devices=[]):
        subject = Subject(family, spec, kernels, device)
        return [violation for check in CHECKS for violation in run_check(check, subject)]
