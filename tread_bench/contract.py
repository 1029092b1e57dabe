"""What every backbone keeps to, as checks that the author of an adapter runs.

    from tread_bench.contract import check_backbone

    def test_the_contract_holds():
        assert check_backbone(FAMILY, FAMILY.spec(depth=4, hidden=32, image_size=8)) == []

A small spec is enough, and quick: every route that the family accepts is tried. Weights are moved away from their
initial values first, so that a layer that starts at zero hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement, product

import torch
from torch import Tensor

from tread_bench.backbone import Backbone, Skip, TokenState, come_back, leave, run_blocks
from tread_bench.ops.selecting import select
from tread_bench.registry import SELECTORS, BackboneSpec, Family, TokenOrder
from tread_bench.routes import Route

BATCH = 3
RATES = (0.5, 0.75, 0.25)  # the first that a family accepts is used
TOLERANCE = 1e-4  # where the order of a float32 sum may differ, relative to the largest value


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a backbone breaks: the check that says so, what it expected and what it saw."""

    check: str
    message: str

    def __str__(self) -> str:
        return f"{self.check}: {self.message}"


@dataclass(frozen=True, slots=True)
class Case:
    """A route that the family accepts, with the tokens that a selector keeps."""

    route: Route
    selector: str
    ids: Tensor  # (B, K)


class Subject:
    """A family's network at one spec, with inputs and routes to try it on."""

    def __init__(
        self, family: Family, spec: BackboneSpec, kernels: Mapping[str, str] | None = None, device: str = "cpu"
    ) -> None:
        if spec.num_tokens < 4:
            raise ValueError(f"{spec.num_tokens} image tokens are too few to route: take a larger image_size")
        self.family, self.spec, self.device = family, spec, torch.device(device)
        self._generator = torch.Generator().manual_seed(0)
        self._kernels = kernels
        self.model = self.fresh().to(device).eval()
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.05 * self.normal(*parameter.shape))
        self.inputs = self.draw_inputs(BATCH)

    def fresh(self) -> Backbone:
        """The network with its initial weights."""
        model = self.family.build(self.spec, self._kernels)
        model.initialise(seed=0)
        return model

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._generator).to(self.device)

    def draw_inputs(self, batch: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """x (B, C, H, W), t (B,) and y (B,), no label among them."""
        size, classes = self.spec.image_size, self.spec.num_classes
        x, t = self.normal(batch, self.spec.channels, size, size), self.normal(batch).sigmoid()
        y = torch.tensor([classes, 0, classes - 1], device=self.device)[:batch] if classes else None
        return x, t, y

    def cases_at(self, *rates: float) -> Iterator[Case]:
        """A case for each start and end: at the first rate, with the first selector, that the family accepts."""
        for start, end in combinations_with_replacement(range(self.model.num_blocks), 2):
            for rate, selector in product(rates, SELECTORS):
                route = Route(start, end, rate)
                if self._accepts(route, selector):
                    yield Case(route, selector, self.draw_ids(route, selector))
                    break

    def draw_ids(self, route: Route, selector: str) -> Tensor:
        scores = torch.rand(BATCH, self.spec.num_tokens, generator=self._generator)
        return select(selector, scores, self.spec.grid, route.kept(self.spec.num_tokens)).to(self.device)

    def _accepts(self, route: Route, selector: str) -> bool:
        try:
            self.family.resolve(self.spec, [route], selector)
        except ValueError:
            return False
        return True

    @cached_property
    def cases(self) -> list[Case]:
        return list(self.cases_at(*RATES))

    @property
    def longest(self) -> Case:
        """The case of the route over the most blocks."""
        return max(self.cases, key=lambda case: case.route.end - case.route.start)

    def routed(self, case: Case, ids: Tensor | None = None) -> Tensor:
        """The prediction under one route, with the case's ids or others."""
        kept = case.ids if ids is None else ids
        return self.model(*self.inputs, routes=[case.route], selector=case.selector, ids=[kept])


def check_shapes(subject: Subject) -> Iterator[str]:
    """The prediction has x's shape and dtype and is finite, whatever the batch, with and without a label."""
    for batch in (1, BATCH):
        x, t, y = subject.draw_inputs(batch)
        out = subject.model(x, t, y)
        if out.shape != x.shape or out.dtype != x.dtype:
            yield f"expected {_kind(x)}, the shape and dtype of x; saw {_kind(out)}"
        if not out.isfinite().all():
            yield f"expected finite predictions; saw {int((~out.isfinite()).sum())} others of {out.numel()}"


def check_layout(subject: Subject) -> Iterator[str]:
    """Every stream is (B, P + N, D): prefix tokens, which know nothing of the image, then the patches row by row."""
    model, (x, t, y) = subject.model, subject.inputs
    state = model.start(x, t, y)
    prefix, tokens = subject.family.num_prefix(subject.spec), subject.spec.num_tokens
    if state.num_prefix != prefix:
        yield f"expected num_prefix {prefix}, as the family says; saw {state.num_prefix} in the state"
    if state.grid != subject.spec.grid:
        yield f"expected grid {subject.spec.grid}, as the spec says; saw {state.grid} in the state"
    for name, stream in state.streams.items():
        if stream.shape[:2] != (BATCH, prefix + tokens):
            yield f"expected stream {name!r} with (B, P + N) = {BATCH, prefix + tokens}; saw {tuple(stream.shape)}"
            return
    for token in range(tokens):
        changed = model.start(_with_other_patch(x, token, subject.spec), t, y)
        moved = sum((changed.streams[name] != state.streams[name]).any(2).any(0).int() for name in state.streams)
        if moved[:prefix].any():
            yield f"expected prefix tokens that do not depend on the image; saw them move with patch {token}"
        if not moved[prefix + token]:
            yield f"expected patch {token} (row by row) in token {prefix + token}; saw only {_places(moved)} move with it"


def check_blocks(subject: Subject) -> Iterator[str]:
    """Blocks are called once each, in order, and hand on the tokens that they got, without writing into them."""
    called: list[int] = []
    subject.model(*subject.inputs, on_block=lambda block, state: called.append(block))
    if called != list(range(subject.model.num_blocks)):
        yield f"expected on_block for blocks 0..{subject.model.num_blocks - 1}; saw it for {called}"
    for case in (None, *subject.cases):
        for step in _steps(subject.model, subject.model.start(*subject.inputs), case):
            yield from (f"block {step.block}, {_under(case)}: {message}" for message in _step_problems(step))


def check_independence(subject: Subject) -> Iterator[str]:
    """A block depends on its state alone: two batches that take turns get what each gets by itself."""
    for case in subject.cases:
        other = replace(case, ids=subject.draw_ids(case.route, case.selector))
        x, t, y = subject.inputs

        def walk(x: Tensor, case: Case, t: Tensor = t, y: Tensor | None = y) -> Iterator[Step]:
            return _steps(subject.model, subject.model.start(x, t, y), case)

        alone = [step.after.stream() for step in walk(x, case)]
        in_turns = [step.after.stream() for step, _ in zip(walk(x, case), walk(-x, other), strict=True)]
        for block, (expected, seen) in enumerate(zip(alone, in_turns, strict=True)):
            if not torch.equal(expected, seen):
                yield (
                    f"block {block}, {_under(case)}: expected the same result while another batch runs in between; "
                    f"saw a difference of {_distance(expected, seen):.1e}: keep what blocks share in the state, not on the module"
                )
                break


def check_gradients(subject: Subject) -> Iterator[str]:
    """Every trainable parameter gets a finite gradient that is not zero throughout, dense and routed."""
    for case in (None, *([subject.longest] if subject.cases else [])):
        for name, gradient in _gradients(subject, case).items():
            if gradient is None or not gradient.any():
                seen = "none" if gradient is None else "zeros"
                yield f"{_under(case)}: expected a gradient of {name}; saw {seen}: use the parameter or freeze it"
            elif not gradient.isfinite().all():
                yield f"{_under(case)}: expected a finite gradient of {name}; saw infinities or NaN"


def check_rate_zero(subject: Subject) -> Iterator[str]:
    """A route that keeps all tokens gives the dense prediction bit for bit, through gather and scatter."""
    dense = subject.model(*subject.inputs)
    for case in subject.cases_at(0.0):
        seen = subject.routed(case)
        if not torch.equal(dense, seen):
            yield f"{_under(case)}: expected the dense prediction bit for bit; saw a difference of {_distance(dense, seen):.1e}"


def check_bypassed(subject: Subject) -> Iterator[str]:
    """Bypassed tokens end a route with the value they had at its start, in every stream; the prefix is never routed."""
    if not subject.cases:
        yield f"expected routes to be accepted at one of the rates {RATES}; saw all refused"
    for case in subject.cases:
        start = subject.model.start(*subject.inputs)
        states = {-1: start}
        run_blocks(subject.model, start, [case.route], [case.ids], lambda block, state, s=states: s.update({block: state}))
        before, after = states[case.route.start - 1], states[case.route.end]
        bypassed = torch.ones(BATCH, subject.spec.num_tokens, dtype=torch.bool, device=subject.device)
        bypassed.scatter_(1, case.ids, False)
        for name, stream in before.streams.items():
            values, returned = (s[:, start.num_prefix :][bypassed] for s in (stream, after.streams[name]))
            if not torch.equal(values, returned):
                yield f"{_under(case)}: expected bypassed tokens unchanged in stream {name!r}; saw {_distance(values, returned):.1e}"


def check_order(subject: Subject) -> Iterator[str]:
    """Kept ids in another order change nothing where tokens are a set, and are refused or put right elsewhere."""
    for case in subject.cases:
        shuffled = case.ids.flip(1)
        try:
            seen = subject.routed(case, shuffled if subject.family.token_order is TokenOrder.SET else shuffled.cpu())
        except ValueError:
            if subject.family.token_order is TokenOrder.SET:
                raise
            continue
        expected = subject.routed(case)
        if not _close(expected, seen):
            yield (
                f"{_under(case)}: expected the same prediction for the same tokens in another order, or a ValueError; saw a "
                f"difference of {_distance(expected, seen):.1e}: announce the token order that the blocks need"
            )


def check_skips(subject: Subject) -> Iterator[str]:
    """A long skip that crosses a route's border gives what the same skip gives when expanded and gathered by hand."""
    for case in subject.cases:
        state = subject.model.start(*subject.inputs)
        expected = subject.model.finish(_with_skips_by_hand(subject.model, state, case))
        seen = subject.routed(case)
        if not torch.equal(expected, seen):
            yield (
                f"{_under(case)}: expected what skips gathered by hand give; saw a difference of "
                f"{_distance(expected, seen):.1e}: read a skip with state.pop_skip()"
            )


def check_checkpointing(subject: Subject) -> Iterator[str]:
    """Gradient checkpointing computes blocks again on the same tokens: prediction and gradients stay the same."""
    if not subject.cases:
        return
    model, case = subject.model, subject.longest
    expected, gradients = subject.routed(case), _gradients(subject, case)
    model.gradient_checkpointing = True
    try:
        seen, again = subject.routed(case), _gradients(subject, case)
    finally:
        model.gradient_checkpointing = False
    if not torch.equal(expected, seen):
        yield f"{_under(case)}: expected the same prediction; saw a difference of {_distance(expected, seen):.1e}"
    for name, gradient in gradients.items():
        if gradient is not None and not _close(gradient, again[name]):
            yield f"{_under(case)}: expected the same gradient of {name}; saw a difference of {_distance(gradient, again[name]):.1e}"


def check_autocast(subject: Subject) -> Iterator[str]:
    """Under bfloat16 autocast predictions and gradients are finite, dense and routed."""
    for case in (None, *([subject.longest] if subject.cases else [])):
        with torch.autocast(subject.device.type, torch.bfloat16):
            out = subject.model(*subject.inputs) if case is None else subject.routed(case)
            gradients = _gradients(subject, case)
        if not out.isfinite().all():
            yield f"{_under(case)}: expected finite predictions; saw {int((~out.isfinite()).sum())} others of {out.numel()}"
        for name, gradient in gradients.items():
            if gradient is not None and not gradient.isfinite().all():
                yield f"{_under(case)}: expected a finite gradient of {name}; saw infinities or NaN"


def check_determinism(subject: Subject) -> Iterator[str]:
    """The same seed gives the same weights; the same input, in eval mode, the same prediction."""
    first, second = (subject.fresh().state_dict() for _ in range(2))
    for name, value in first.items():
        if not torch.equal(value, second[name]):
            yield f"expected the same initial {name} from the same seed; saw two: draw all weights in init_module"
    expected, seen = (subject.model(*subject.inputs) for _ in range(2))
    if not torch.equal(expected, seen):
        yield f"expected the same prediction for the same input; saw a difference of {_distance(expected, seen):.1e}"


CHECKS: tuple[Callable[[Subject], Iterator[str]], ...] = (
    check_shapes,
    check_layout,
    check_blocks,
    check_independence,
    check_gradients,
    check_rate_zero,
    check_bypassed,
    check_order,
    check_skips,
    check_checkpointing,
    check_autocast,
    check_determinism,
)


def run_check(check: Callable[[Subject], Iterator[str]], subject: Subject) -> list[Violation]:
    """What one check finds; an error that the backbone raises is a finding."""
    found: list[Violation] = []
    name = check.__name__.removeprefix("check_")
    try:
        with torch.random.fork_rng(devices=[]):
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
    subject = Subject(family, spec, kernels, device)
    return [violation for check in CHECKS for violation in run_check(check, subject)]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of run_block: the state it got, a copy of its streams as they were, and the state it gave."""

    block: int
    before: TokenState
    streams: Mapping[str, Tensor]
    after: TokenState


def _steps(model: Backbone, state: TokenState, case: Case | None) -> Iterator[Step]:
    for block in range(model.num_blocks):
        if case is not None and block == case.route.start:
            state = leave(state, case.ids)
        before, streams = state, {name: stream.clone() for name, stream in state.streams.items()}
        state = model.run_block(block, state)
        yield Step(block, before, streams, state)
        if case is not None and block == case.route.end:
            state = come_back(state)


def _step_problems(step: Step) -> Iterator[str]:
    before, after = step.before, step.after
    shapes, given = ({n: tuple(s.shape) for n, s in state.streams.items()} for state in (after, before))
    if shapes != given:
        yield f"expected streams {given}; saw {shapes}"
    for field in ("ids", "positions", "background", "grid", "num_prefix"):
        if getattr(after, field) is not getattr(before, field) and field not in ("grid", "num_prefix"):
            yield f"expected the state's {field} as it was; saw another: build the new state with with_streams"
        elif field in ("grid", "num_prefix") and getattr(after, field) != getattr(before, field):
            yield f"expected {field} {getattr(before, field)}; saw {getattr(after, field)}"
    for name, stream in step.streams.items():
        if not torch.equal(stream, before.streams[name]):
            yield f"expected stream {name!r} of the state unwritten; saw it changed in place"


def _with_skips_by_hand(model: Backbone, state: TokenState, case: Case) -> TokenState:
    """All blocks, with every skip turned at the route's borders into what its reader will need."""
    whole: dict[int, Skip] = {}
    for block in range(model.num_blocks):
        if block == case.route.start:
            outside = state.skips
            state = leave(state, case.ids)
            gathered = tuple(_gathered_by_hand(skip, state.positions) for skip in outside)
            whole = {id(inside): skip for inside, skip in zip(gathered, outside, strict=True)}
            state = replace(state, skips=gathered)
        state = model.run_block(block, state)
        if block == case.route.end:
            skips = tuple(whole[id(skip)] if id(skip) in whole else _expanded_by_hand(skip) for skip in state.skips)
            state = replace(come_back(state), skips=skips)
    return state


def _gathered_by_hand(skip: Skip, positions_BK: Tensor | None) -> Skip:
    assert positions_BK is not None
    value = torch.stack([tokens[kept] for tokens, kept in zip(skip.value, positions_BK, strict=True)])
    return Skip(value, positions_BK, None)


def _expanded_by_hand(skip: Skip) -> Skip:
    assert skip.background is not None and skip.positions is not None
    value = skip.background.clone()
    for sample, kept in enumerate(skip.positions):
        value[sample, kept] = skip.value[sample]
    return Skip(value, None, None)


def _gradients(subject: Subject, case: Case | None) -> dict[str, Tensor | None]:
    """Gradients by name of a loss that weighs every output differently."""
    trainable = {name: p for name, p in subject.model.named_parameters() if p.requires_grad}
    out = subject.model(*subject.inputs) if case is None else subject.routed(case)
    weights = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)
    gradients = torch.autograd.grad((out.float() * weights).sum(), list(trainable.values()), allow_unused=True)
    return dict(zip(trainable, gradients, strict=True))


def _with_other_patch(x: Tensor, token: int, spec: BackboneSpec) -> Tensor:
    """x with another patch at `token`, counted row by row."""
    row, column = divmod(token, spec.grid[1])
    x, patch = x.clone(), spec.patch
    x[:, :, row * patch : (row + 1) * patch, column * patch : (column + 1) * patch] += 1
    return x


def _close(expected: Tensor, seen: Tensor) -> bool:
    return torch.allclose(expected, seen, rtol=0, atol=TOLERANCE * float(expected.abs().max()))


def _distance(expected: Tensor, seen: Tensor) -> float:
    return float((expected - seen).abs().max())


def _kind(x: Tensor) -> str:
    return f"{tuple(x.shape)} {str(x.dtype).removeprefix('torch.')}"


def _under(case: Case | None) -> str:
    return "dense" if case is None else f"route {case.route} ({case.selector})"


def _places(moved: Tensor) -> list[int]:
    return moved.nonzero().flatten().tolist()
