"""The contract of guidance rules, as checks for their authors to run.

    from tread_bench.contract import check_guidance

    def test_the_contract_holds():
        assert check_guidance(RULE, {"interval": [0.1, 0.9]}) == []

A rule is tried on a small network and, if its weak branch has other weights, on a second one. Their weights are
random, so that every label, route and block has an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from tread_bench.core.config.routed import setting_of, with_blocks
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.describe.branches import Branch
from tread_bench.core.describe.guidance import GuidanceFamily, GuidanceOptions, find_guidance
from tread_bench.core.describe.methods import find_method
from tread_bench.core.describe.plugins import by_name
from tread_bench.core.describe.routes import RoutesLike
from tread_bench.core.describe.violations import Violation, run_check
from tread_bench.core.numbers.costs import sampling_macs
from tread_bench.data.open import open_data
from tread_bench.diffusion.conditioning import with_random_text
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.guidance import Guided
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model.contract.cells import BATCH, SMALL, TOLERANCE, CellSubject, check_built, close
from tread_bench.model.methods.base import BatchRange
from tread_bench.model.network import Network

STEPS = 4
ROUGHLY = 10 * TOLERANCE  # of predictions that are added and scaled


class GuidanceSubject(CellSubject):
    """A rule with a small network for digits, as a suite resolves it.

    Args:
        written: the rule as a suite writes it.
        method: name and options of the method.

    Raises:
        ValueError: the cell lacks what the rule needs.
    """

    def __init__(
        self,
        family: GuidanceFamily,
        written: GuidanceOptions,
        method: Mapping[str, Any],
        routes: RoutesLike,
        backbone: Mapping[str, Any],
    ) -> None:
        # The rule as written, and with the weights of its weak branch.
        super().__init__(find_method(method["name"]), method, routes, backbone)
        self.family = family
        self.written = written
        has_weights = written.weak_row is not None or written.weak_snapshot is not None
        rule = written.with_weights("weak", 1) if has_weights else written

        # A cell that samples with it.
        sampling = Sampling(steps=STEPS).model_copy(update={"guidance": rule, "guidance_scale": 2.0})
        complete = with_blocks(setting_of(self.cell.model_copy(update={"sampling": sampling})))
        if isinstance(complete, list):
            raise ValueError("; ".join(problem.message for problem in complete))
        self.cell = complete
        self.rule = complete.sampling.guidance

        # Digits, with random text beside them for a network that takes text.
        self.data = with_random_text(open_data(complete.data), self.spec)

        # Two networks with different weights.
        self.objective = build_objective(complete.objective)
        self.times = self.objective.sampling_times(STEPS)
        self.network, self.weak = (self._network(seed) for seed in (0, 1))

    def _network(self, seed: int) -> Network:
        network = Network(*self.build(self.cell, seed)).eval().requires_grad_(False)
        generator = torch.Generator().manual_seed(seed)
        for parameter in network.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
        return network

    @property
    def branches(self) -> tuple[Branch, ...]:
        """Return the strong branch and, if there is one, the weak branch."""
        return tuple(branch for branch in self.rule.branches if branch is not None)

    def scaled(self, scale: float) -> Sampling:
        """Return the cell's sampling with another scale."""
        return self.cell.sampling.model_copy(update={"guidance_scale": scale})

    @torch.no_grad()
    def predicted(self, scale: float, first: int = 0, count: int = BATCH) -> Tensor:
        """Return the guided prediction (steps, B, C, H, W) of some samples at the time of each step."""
        part = slice(first, first + count)
        y = None if self.y is None else self.y[part]
        predict = Guided(
            self.network,
            self.scaled(scale),
            self.times,
            BatchRange(0, first, count),
            y,
            self._weak_network(),
            self.empty_text,
        )
        return torch.stack([predict(self.x[part], torch.full((count,), time)) for time in self.times[:-1]])

    def _weak_network(self) -> Network | None:
        return self.weak if any(branch.other_weights for branch in self.branches) else None

    def counted_macs(self) -> int:
        """Count the multiply-adds of one sample."""
        with FlopCounterMode(display=False) as counter:
            weak, held_out = self._weak_network(), self.data.held_out
            list(generate(self.network, self.objective, self.cell.sampling, 0, 1, 1, weak, held_out=held_out))
        return counter.get_total_flops() // 2


def check_branches(subject: GuidanceSubject) -> Iterator[str]:
    """Its properties describe its branches correctly; otherwise no other check is run."""
    rule, branches = subject.rule, subject.branches

    # The branches themselves.
    if not branches or not all(isinstance(branch, Branch) for branch in branches) or rule.branches[0] is None:
        yield f"expected a strong tread_bench.Branch, and a weak one or None; saw {rule.branches}"
        return
    if rule.branches != rule.branches:
        yield "branches differ each time they are read"
    if len({branch.name for branch in branches}) < len(branches):
        yield f"both branches are called {branches[0].name!r}: their masks would be the same; give them two names"
    if branches[0].other_weights:
        yield "the strong branch has other weights: it must be the network that is evaluated"

    # Weights.
    other, asked = any(branch.other_weights for branch in branches), rule.weak_row or rule.weak_snapshot
    if other != bool(asked):
        yield f"other_weights of its branches is {other}, and weak_row or weak_snapshot is {asked}"

    # Blocks and rates.
    routed = [branch for branch in branches if branch.routes or branch.drops_path]
    if bool(routed) != (rule.routed_blocks is not None):
        yield f"{len(routed)} of its branches are routed or leave blocks out, and routed_blocks is {rule.routed_blocks}"
    stated = [tuple({route.rate for route in branch.routes}) for branch in branches if not branch.drops_path]
    if rule.rates and stated != [(rate,) for rate in rule.rates]:
        yield f"rates is {rule.rates}, and the routes of its branches have {stated}"
    if not rule.rates and any(branch.routes and not branch.drops_path for branch in branches):
        yield "its branches are routed, and rates is empty: a suite could not check them"


def check_written(subject: GuidanceSubject) -> Iterator[str]:
    """A plan stores its blocks and weights in numbers, and can read them again."""
    rule = subject.rule
    again = subject.family.options.model_validate(rule.model_dump(mode="json"))
    if again != rule or again.branches != rule.branches:
        yield "the rule that a plan writes is another one when it is read again"
    if subject.written.routed_blocks == () and not subject.cell.method.family.has_shallow_path:
        expected, found = (
            [(r.start, r.end) for r in routes or ()] for routes in (subject.cell.routes, rule.routed_blocks)
        )
        if found != expected:
            yield f"with_blocks: expected the blocks of the cell's routes, {expected}; saw {found}"
    if (rule.weak_row or rule.weak_snapshot) and rule.weak_snapshot != 1:
        yield f"with_weights: expected iteration 1; saw {rule.weak_snapshot}"


def check_scale(subject: GuidanceSubject) -> Iterator[str]:
    """The prediction is weak + scale (strong - weak): at scale 1 the strong branch alone, at others guided."""
    strong, twice, thrice = (subject.predicted(scale) for scale in (1.0, 2.0, 3.0))
    if subject.branches[0] == Branch(subject.branches[0].name):
        with torch.no_grad():
            t = (torch.full((BATCH,), time) for time in subject.times[:-1])
            unguided = torch.stack([subject.network(subject.x, at, subject.y) for at in t])
        if not torch.equal(strong, unguided):
            yield "its strong branch is the plain network, and at scale 1 it predicts something else"
    if not close(thrice - twice, twice - strong, ROUGHLY):
        yield "the prediction is not linear in the scale: its branches are not the same each time"
    if len(subject.branches) > 1 and torch.equal(twice, strong):
        yield "scale 2 predicts what scale 1 does: its branches do not differ, or it is guided at no time"


def check_batch(subject: GuidanceSubject) -> Iterator[str]:
    """A sample does not depend on the other samples of its batch."""
    parts = [subject.predicted(2.0, first, 2) for first in range(0, BATCH, 2)]
    if not close(torch.cat(parts, dim=1), subject.predicted(2.0), ROUGHLY):
        yield "the batch in parts gives other predictions"


def check_cost(subject: GuidanceSubject) -> Iterator[str]:
    """The multiply-adds of a sample stated in a record equal the counted ones."""
    setting = setting_of(subject.cell)
    stated, counted = sampling_macs(setting, subject.times, setting), subject.counted_macs()
    if stated != counted:
        yield f"a record states {stated} MACs of one sample in {STEPS} steps; counted {counted}"


def _wrong_numbers(rule: GuidanceOptions) -> Iterator[str]:
    """The properties that do not have the numbers that they must have."""
    if not _are_times(rule.guided_times):
        yield f"guided_times is {rule.guided_times!r}: expected (low, high) with low < high, or None"
    if not all(isinstance(rate, int | float) for rate in rule.rates):
        yield f"rates is {rule.rates!r}: expected a number for each branch"


def _are_times(times: object) -> bool:
    match times:
        case None:
            return True
        case int() | float() as low, int() | float() as high:
            return low < high
    return False


GUIDANCE_CHECKS: tuple[Callable[[GuidanceSubject], Iterator[str]], ...] = (
    check_branches,
    check_written,
    check_scale,
    check_batch,
    check_cost,
)


def check_guidance(
    family: GuidanceFamily | str,
    options: Mapping[str, Any] | None = None,
    *,
    method: Mapping[str, Any] | None = None,
    routes: RoutesLike = "1:3@0.5",
    backbone: Mapping[str, Any] | None = None,
) -> list[Violation]:
    """Return the violations of the contract by a rule of guidance, in the order of
    `GUIDANCE_CHECKS`; empty if there are none.

    Args:
        family: what is announced in the group `tread_bench.guidance`; or its name, where it is installed.
        options: as a suite writes them.
        method: name and options of the method of the network; the default is TREAD.
        routes: routes of the cell, whose blocks a rule may use; left out for a method that takes none.
        backbone: name and sizes of the network; the default is a DiT of 5 blocks and width 16.

    Raises:
        ValueError: the options are not valid, or the cell does not have what the rule needs.
    """
    family = by_name(family, find_guidance)
    written = family.options.model_validate({"name": family.name, **(options or {})})
    if wrong := run_check(_wrong_numbers, written):
        return [replace(one, check="branches") for one in wrong]
    build = partial(GuidanceSubject, family, written, method or {"name": "tread"}, routes, backbone or SMALL)
    return check_built(GUIDANCE_CHECKS, build, f"rule {family.name!r}")
