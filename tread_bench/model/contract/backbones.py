"""The contract of backbones, as checks for authors of adapters to run.

    from tread_bench.contract import check_backbone

    def test_the_contract_holds():
        assert check_backbone(FAMILY, FAMILY.spec(depth=4, hidden=32, image_size=8)) == []

A small spec is enough, and quick. Weights are moved away from their initial values first, so that a layer that starts
at zero hides nothing. Each rule is a function, which yields what was expected and what was seen if it is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.routes import ResolvedRoute, Route
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR, TokenOrder, selectors
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.core.names import few
from tread_bench.model.backbone import Backbone, Skip, TokenState, build_backbone, come_back, kind, leave

Inputs = tuple[Tensor, Tensor, Any]  # x, t and y

BATCH = 3
RATES = (0.5, 0.75, 0.25)  # the first one that a family accepts is used
SHOWN = 3  # names in a message
TOLERANCE = 1e-4  # relative to the largest value, if the order of a float32 sum may differ


@dataclass(frozen=True, slots=True)
class Case:
    """A route that the family accepts, with the kept tokens of a selector."""

    route: ResolvedRoute
    selector: str
    ids: Tensor  # (B, K)

    def __str__(self) -> str:
        return f"route {self.route} ({self.selector})"


@dataclass
class Trial:
    """A network with inputs, and routes to try it on."""

    model: Backbone
    inputs: Inputs
    generator: torch.Generator

    def start(self) -> TokenState:
        """Return the state before the first block."""
        return self.model.start(*self.inputs)

    def predict(self, case: Case | None = None) -> Tensor:
        """Return the prediction, dense or under one route."""
        if case is None:
            return self.model(*self.inputs)
        return self.model(*self.inputs, routes=[case.route], selector=case.selector, ids=[case.ids])

    def cases_at(self, *rates: float) -> Iterator[Case]:
        """Yield routes over all blocks, over those between the first and the last, and over each block alone.

        Each has the first rate and the first selector that the family accepts.
        """
        last = self.model.num_blocks - 1
        for start, end in dict.fromkeys([(0, last), (1, last - 1), *((block, block) for block in range(last + 1))]):
            for rate, selector in product(rates, (DEFAULT_SELECTOR, *selectors())):
                route = ResolvedRoute(start, end, rate)
                if start <= end and accepts(self.model.family, self.model.spec, [route], selector):
                    yield Case(route, selector, self.model.draw_ids(route, selector, self.start(), self.generator))
                    break

    @cached_property
    def cases(self) -> list[Case]:
        return list(self.cases_at(*RATES))

    @property
    def dense_and_longest(self) -> list[Case | None]:
        """Return no route, then the route over the most blocks."""
        return [None, *sorted(self.cases, key=lambda case: case.route.start - case.route.end)[:1]]


def trial_of(
    family: Family, spec: BackboneSpec, kernels: Mapping[str, str] | None = None, device: str = "cpu"
) -> Trial:
    """Return a family's network for one spec, with weights and inputs drawn.

    Raises:
        ValueError: fewer than 4 image tokens.
    """
    if spec.num_tokens < 4:
        raise ValueError(f"{spec.num_tokens} image tokens are too few to route: take a larger image_size")
    generator = torch.Generator().manual_seed(0)
    model = build_backbone(family, spec, kernels, seed=0).to(device).eval()
    move_weights(model, generator)

    # Images, times, and labels, including "no label", or text features (B, M, E).
    x = torch.randn(BATCH, spec.channels, spec.image_size, spec.image_size, generator=generator)
    t = torch.rand(BATCH, generator=generator)
    y = None
    if spec.context_shape is not None:
        y = torch.randn(BATCH, *spec.context_shape, generator=generator).to(device)
    elif spec.num_classes:
        y = torch.tensor([spec.num_classes, 0, spec.num_classes - 1], device=device)
    return Trial(model, (x.to(device), t.to(device), y), generator)


def check_shapes(subject: Trial) -> Iterator[str]:
    """The prediction has x's shape and dtype and is finite, whatever the batch, with and without a label.

    Where the spec has channels for a variance, they come behind the prediction on request.
    """
    model, spec = subject.model, subject.model.spec
    for batch in (1, BATCH):
        x, t, y = subject.inputs
        x, t, y = x[:batch], t[:batch], y if y is None else y[:batch]
        out = model(x, t, y)
        if out.shape != x.shape or out.dtype != x.dtype or not out.isfinite().all():
            wrong = int((~out.isfinite()).sum())
            yield f"expected a finite {kind(x)}, the shape and dtype of x; saw {kind(out)}, {wrong} values not finite"
        if spec.out_channels > spec.channels:
            model.returns_variance = True
            both = model(x, t, y)
            model.returns_variance = False
            expected = (batch, spec.out_channels, *x.shape[2:])
            if both.shape != expected or not torch.equal(both[:, : spec.channels], out):
                yield f"expected the prediction and a variance {expected}, as the spec says; saw {kind(both)}"


def check_layout(subject: Trial) -> Iterator[str]:
    """Every stream is (B, P + N, D): prefix tokens, which know nothing of the image, then the patches row by row.

    Unrouted streams are (B, M, D) and know nothing of the image either.
    """
    # Prefix, grid and the number of tokens.
    spec, state = subject.model.spec, subject.start()
    x, t, y = subject.inputs
    prefix = subject.model.family.num_prefix(spec)
    if (state.num_prefix, state.grid) != (prefix, spec.grid):
        stated = f"num_prefix {prefix} and grid {spec.grid}, as family and spec say"
        yield f"expected {stated}; saw {state.num_prefix} and {state.grid} in the state"
        return
    tokens = (BATCH, prefix + spec.num_tokens)
    if wrong := {name: kind(state.streams[name]) for name in state.routed if state.streams[name].shape[:2] != tokens}:
        yield f"expected streams of {tokens} tokens (B, P + N); saw {wrong}: name in unrouted what no route takes"
        return

    # What no route takes, and the conditioning, of which a method may take some samples.
    other = subject.model.start(-x, t, y)
    for name in state.unrouted:
        text = state.streams[name]
        if text.ndim != 3 or len(text) != BATCH or not torch.equal(other.streams[name], text):
            yield f"expected an unrouted stream {name!r} (B, M, D) that knows nothing of the image; saw {kind(text)}"
    for name, value, ndim in (("c", state.c, 2), ("context", state.context, 3)):
        if value is not None and not (isinstance(value, Tensor) and value.ndim == ndim and len(value) == BATCH):
            yield f"expected {name} as a tensor of {ndim} dimensions, a row for each sample, or None; saw {kind(value)}"

    # Each patch changes the token of its place, and no prefix.
    for token in range(spec.num_tokens):
        row, column = (spec.patch * place for place in divmod(token, spec.grid[1]))
        changed = x.clone()
        changed[:, :, row : row + spec.patch, column : column + spec.patch] += 1
        other = subject.model.start(changed, t, y)
        differs = [(other.streams[name] != state.streams[name]).any(2).any(0) for name in state.routed]
        moved = torch.stack(differs).any(0).nonzero().flatten().tolist()
        if any(place < prefix for place in moved) or prefix + token not in moved:
            place = f"patch {token}, row by row, in token {prefix + token} and not in the prefix"
            yield f"expected {place}; saw it in tokens {moved}"


def check_blocks(subject: Trial) -> Iterator[str]:
    """Blocks are called once each, in order, and return the tokens they received without writing into them.

    Nor do they write into those that bypass them, which so end a route with the value they had at its start.
    """
    if not subject.cases:
        yield f"expected routes accepted at one of the rates {RATES}; saw all refused"
    called: list[int] = []
    subject.model(*subject.inputs, on_block=lambda block, state: called.append(block))
    if called != list(range(subject.model.num_blocks)):
        yield f"expected on_block for blocks 0..{subject.model.num_blocks - 1}; saw it for {called}"
    for case in (None, *subject.cases):
        for step in steps(subject.model, subject.start(), case):
            where = f"block {step.block}, {case or 'dense'}: "
            given, returned = (
                {name: tuple(stream.shape) for name, stream in state.streams.items()}
                for state in (step.before, step.after)
            )
            if returned != given:
                yield f"{where}expected streams {given}; saw {returned}"
            for name in ("ids", "positions", "background", "grid", "num_prefix", "unrouted"):
                if getattr(step.after, name) is not getattr(step.before, name):
                    yield f"{where}expected the state's {name} as it came; saw another: return state.with_streams(...)"
            for name, (stream, copied) in step.held.items():
                yield from differs(where, f"{name} of the state that came unwritten", copied, stream)


def check_independence(subject: Trial) -> Iterator[str]:
    """A block depends only on its state: two batches that take turns give the same results as each alone."""

    def rolled(one: Any) -> Any:
        if isinstance(one, Mapping):
            return {name: rolled(part) for name, part in one.items()}
        of_samples = isinstance(one, Tensor) and one.shape[:1] == subject.inputs[0].shape[:1]
        return one.roll(1, 0) if of_samples else one

    model, (x, t, y) = subject.model, subject.inputs
    advice = ": keep what blocks share in the state, not on the module"
    for case in subject.cases:
        other = replace(case, ids=model.draw_ids(case.route, case.selector, subject.start(), subject.generator))
        alone = list(steps(model, subject.start(), case))
        again = steps(model, subject.start(), case)
        beside = steps(model, model.start(-x, rolled(t), rolled(y)), other)  # started after, and run in turns
        for expected, step, _ in zip(alone, again, beside, strict=True):
            for name, stream in expected.after.streams.items():
                what = f"stream {name!r} after block {step.block} unmoved by another batch in between"
                yield from differs(f"{case}: ", what, stream, step.after.streams[name], advice)


def check_gradients(subject: Trial) -> Iterator[str]:
    """Every trainable parameter gets a finite gradient that is not all zeros, dense and routed."""
    for case in subject.dense_and_longest:
        gradients = gradients_of(subject.model, subject.predict(case))
        if unused := [name for name, one in gradients.items() if one is None or not one.any()]:
            seen = "saw none, or zeros: use the parameter or freeze it"
            yield f"{case or 'dense'}: expected a gradient of {few(unused, SHOWN)}; {seen}"
        yield from _not_finite(case, gradients)


def check_rate_zero(subject: Trial) -> Iterator[str]:
    """A route that keeps all tokens gives the dense prediction, through gather and scatter.

    Not bit for bit: gathered tokens may have another memory layout, for which a processor may take another kernel.
    """
    dense = subject.predict()
    for case in subject.cases_at(0.0):
        yield from differs(f"{case}: ", "the dense prediction", dense, subject.predict(case), tolerance=TOLERANCE)


def check_order(subject: Trial) -> Iterator[str]:
    """Kept ids in another order change nothing if tokens are a set; otherwise they are refused or sorted."""
    is_set = subject.model.family.token_order is TokenOrder.SET
    for case in subject.cases:
        # An order that does not ascend; unlike a reversal, it separates neighbours.
        order = torch.randperm(case.ids.shape[1], generator=subject.generator)
        shuffled = case.ids[:, order if (order.diff() < 0).any() else order.flip(0)]
        try:  # on a GPU ids are not checked, to avoid waiting for it
            seen = subject.predict(replace(case, ids=shuffled if is_set else shuffled.cpu()))
        except ValueError:
            if is_set:
                raise
            continue
        what = "the same prediction for the same tokens in another order, or a ValueError"
        advice = ": announce the order that blocks need, and let what belongs to a token, as a rotary row, move with it"
        yield from differs(f"{case}: ", what, subject.predict(case), seen, advice, TOLERANCE)


def check_text(subject: Trial) -> Iterator[str]:
    """Every text token has an effect on the prediction."""
    if subject.model.spec.context_shape is None:
        return
    x, t, y = subject.inputs
    text = y.clone().requires_grad_()
    told = Trial(subject.model, (x, t, text), subject.generator)
    for case in subject.dense_and_longest:
        unread = ~read(told.predict(case), text).all(0)
        if unread.any():
            yield f"{case or 'dense'}: expected an effect of every text token; saw none of tokens {numbers(unread)}"


def check_unrouted(subject: Trial) -> Iterator[str]:
    """Under a route a block reads the same rows of `context` and of unrouted streams as without one."""
    state = subject.start()
    names = list(state.unrouted)
    if state.context is not None:
        names.append("context")
    for case, name in product(subject.dense_and_longest[1:], names):
        dense = [_rows_read(subject.model, step, name) for step in steps(subject.model, subject.start(), None)]
        routed = [_rows_read(subject.model, step, name) for step in steps(subject.model, subject.start(), case)]
        other = (torch.stack(dense) != torch.stack(routed)).flatten(0, 1).any(0)
        if other.any():
            expected = f"every block to read the rows of {name!r} that it reads without a route"
            yield f"{case}: expected {expected}; saw another choice of rows {numbers(other)}: no route takes {name!r}"


def check_skips(subject: Trial) -> Iterator[str]:
    """A long skip is read by `pop_skip`: it may hold some of its tokens alone, in any order, and expands to all."""

    def held_in_part(skip: Skip) -> Skip:
        """Every second token, from the last, with the others in the background, as a skip from inside a route."""
        if skip.background is not None:
            return skip
        places = torch.arange(skip.value.shape[1], device=skip.value.device).flip(0)[::2]
        return Skip(skip.value[:, places], places.expand(len(skip.value), -1), skip.value)

    state = subject.start()
    for block in range(subject.model.num_blocks):
        state = subject.model.run_block(block, state)
        state = replace(state, skips=tuple(map(held_in_part, state.skips)))
    advice = ": read a skip with state.pop_skip()"
    yield from differs("", "a skip expanded to all tokens", subject.predict(), subject.model.finish(state), advice)


def check_checkpointing(subject: Trial) -> Iterator[str]:
    """Gradient checkpointing recomputes blocks on the same tokens: prediction and gradients do not change."""
    for case in subject.dense_and_longest:
        expected = subject.predict(case)
        gradients = gradients_of(subject.model, expected)
        subject.model.gradient_checkpointing = True
        try:
            seen = subject.predict(case)
            again = gradients_of(subject.model, seen)
        finally:
            subject.model.gradient_checkpointing = False
        yield from differs(f"{case or 'dense'}: ", "the same prediction", expected, seen)
        if other := other_gradients(gradients, again):
            yield f"{case or 'dense'}: expected the same gradient of {few(other, SHOWN)}; saw another"


def check_autocast(subject: Trial) -> Iterator[str]:
    """Under bfloat16 autocast predictions and gradients are finite, dense and routed."""
    for case in subject.dense_and_longest:
        with torch.autocast(subject.inputs[0].device.type, torch.bfloat16):
            out = subject.predict(case)
            gradients = gradients_of(subject.model, out)
        yield from _not_finite(case, {"the prediction": out, **gradients})


def check_determinism(subject: Trial) -> Iterator[str]:
    """The same seed gives the same weights, and the same input in eval mode the same prediction."""
    family, spec = subject.model.family, subject.model.spec
    first, second = (build_backbone(family, spec, seed=0).state_dict() for _ in range(2))
    if drawn := [name for name, value in first.items() if not torch.equal(value, second[name])]:
        advice = "draw it from torch's global generator"
        yield f"expected the same initial {few(drawn, SHOWN)} from the same seed; saw another: {advice}"
    yield from differs("", "the same prediction for the same input", subject.predict(), subject.predict())


SHARED = (check_blocks, check_independence, check_rate_zero, check_order, check_checkpointing)  # with wrapped networks
CHECKS: tuple[Callable[[Trial], Iterator[str]], ...] = (
    *(check_shapes, check_layout, check_blocks, check_independence, check_gradients, check_rate_zero, check_order),
    *(check_text, check_unrouted, check_skips, check_checkpointing, check_autocast, check_determinism),
)


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
        return run_checks(CHECKS, trial_of(family, spec, kernels, device))


@dataclass(frozen=True, slots=True)
class Step:
    """One call of run_block: the state it received, what that state held with copies made before, and its result."""

    block: int
    before: TokenState
    held: Mapping[str, tuple[Tensor, Tensor]]
    after: TokenState


def steps(model: Backbone, state: TokenState, case: Case | None) -> Iterator[Step]:
    """Yield the blocks one by one, dense or under a route."""
    for block in range(model.num_blocks):
        if case is not None and block == case.route.start:
            state = leave(state, case.ids)
        before = state
        held = {f"stream {name!r}": (stream, stream.clone()) for name, stream in state.streams.items()}
        for name, stream in (state.background or {}).items():
            held[f"bypassed tokens in stream {name!r}"] = (stream, stream.clone())
        state = model.run_block(block, state)
        yield Step(block, before, held, state)
        if case is not None and block == case.route.end:
            state = come_back(state)


@torch.no_grad()
def move_weights(module: nn.Module, generator: torch.Generator) -> None:
    """Move weights away from their values, so that a layer that starts at zero hides nothing."""
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator).to(parameter.device))


def accepts(family: Family, spec: BackboneSpec, routes: Sequence[Route], selector: str) -> bool:
    """Return whether the family accepts the selector with these routes."""
    try:
        family.resolve(spec, routes, selector)
    except ValueError:
        return False
    return True


def weighted(out: Tensor) -> Tensor:
    """Return a sum over an output with a weight for each value, so that opposite ones do not cancel."""
    return (out.float() * torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)).sum()


def gradients_of(model: nn.Module, prediction: Tensor) -> dict[str, Tensor | None]:
    """Return the gradients by a network's trainable parameters, by name."""
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(weighted(prediction), list(trainable.values()), allow_unused=True)
    return dict(zip(trainable, gradients, strict=True))


def other_gradients(expected: Mapping[str, Tensor | None], seen: Mapping[str, Tensor | None]) -> list[str]:
    """Return the names of those that `expected` has, and `seen` has not, or not alike."""
    given = {name: one for name, one in expected.items() if one is not None}
    return [name for name, one in given.items() if (other := seen[name]) is None or not close(one, other)]


def read(result: Tensor, text_BME: Tensor) -> Tensor:
    """Return which text tokens (B, M) a result depends on."""
    (gradient,) = torch.autograd.grad(weighted(result), text_BME, allow_unused=True, materialize_grads=True)
    return gradient.any(2)


def _rows_read(model: Backbone, step: Step, name: str) -> Tensor:
    """Return which rows (B, M) of the context, or of an unrouted stream, a block's tokens depend on."""
    if name == "context":
        text = torch.as_tensor(step.before.context).detach().requires_grad_()
        given = replace(step.before, context=text)
    else:
        text = step.before.streams[name].detach().requires_grad_()
        given = step.before.with_streams(**{name: text})
    after = model.run_block(step.block, given)
    return read(torch.cat([after.streams[routed].flatten() for routed in after.routed]), text)


def numbers(mask: Tensor) -> str:
    """Return where a mask is True, the first few."""
    return few([str(number) for number in mask.nonzero().flatten().tolist()], SHOWN)


def differs(
    where: str, what: str, expected: Tensor, seen: Tensor, advice: str = "", tolerance: float = 0.0
) -> Iterator[str]:
    """Report a difference above a tolerance, which is relative to the largest value."""
    difference = (expected.detach().double() - seen.detach().double()).abs().max()
    if not difference <= tolerance * expected.detach().abs().max():
        yield f"{where}expected {what}; saw a difference of {difference:.1e}{advice}"


def _not_finite(case: Case | None, values: Mapping[str, Tensor | None]) -> Iterator[str]:
    if wrong := [name for name, one in values.items() if one is not None and not one.isfinite().all()]:
        yield f"{case or 'dense'}: expected finite values; saw infinite or NaN ones in {few(wrong, SHOWN)}"


def close(expected: Tensor, seen: Tensor) -> bool:
    return torch.allclose(expected, seen, rtol=0, atol=TOLERANCE * float(expected.detach().abs().max()))
