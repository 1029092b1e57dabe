"""The contract of backbones, as checks for authors of adapters to run.

    from tread_bench.contract import check_backbone

    def test_the_contract_holds():
        assert check_backbone(FAMILY, FAMILY.spec(depth=4, hidden=32, image_size=8)) == []

A small spec is enough, and quick: every route that the family accepts is tried. Weights are moved away from their
initial values first, so that a layer that starts at zero hides nothing. Each rule is a function, which yields what was
expected and what was seen if it is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.selectors import TokenOrder
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.core.names import few
from tread_bench.model.backbone import Backbone, kind
from tread_bench.model.contract.subject import BATCH, RATES, Case, Step, Subject, Trial, steps, with_skips_by_hand

Check = Callable[[Subject], Iterator[str]]
SHOWN = 3  # names in a message
TOLERANCE = 1e-4  # relative to the largest value, if the order of a float32 sum may differ


def check_shapes(subject: Subject) -> Iterator[str]:
    """The prediction has x's shape and dtype and is finite, whatever the batch, with and without a label.

    Where the spec has channels for a variance, they come behind the prediction on request.
    """
    for batch in (1, BATCH):
        x, t, y = subject.draw_inputs(batch)
        out = subject.model(x, t, y)
        if out.shape != x.shape or out.dtype != x.dtype:
            yield f"expected {kind(x)}, the shape and dtype of x; saw {kind(out)}"
        yield from _not_finite(f"a prediction for batch {batch}", out)
        if subject.spec.out_channels > subject.spec.channels:
            subject.model.returns_variance = True
            both = subject.model(x, t, y)
            subject.model.returns_variance = False
            expected = (batch, subject.spec.out_channels, *x.shape[2:])
            if both.shape != expected or not torch.equal(both[:, : x.shape[1]], out):
                yield f"expected the prediction and a variance {expected}, as the spec says; saw {kind(both)}"


def check_layout(subject: Subject) -> Iterator[str]:
    """Every stream is (B, P + N, D): prefix tokens, which know nothing of the image, then the patches row by row.

    Unrouted streams are (B, M, D) and know nothing of the image either.
    """
    # Prefix, grid and the number of tokens.
    state = subject.start()
    spec = subject.spec
    prefix = state.num_prefix
    shape = (BATCH, subject.family.num_prefix(spec) + spec.num_tokens)
    if prefix != subject.family.num_prefix(spec):
        yield f"expected num_prefix {subject.family.num_prefix(spec)}, as the family says; saw {prefix} in the state"
        return
    if state.grid != spec.grid:
        yield f"expected grid {spec.grid}, as the spec says; saw {state.grid} in the state"
    shapes = {name: tuple(stream.shape) for name, stream in state.streams.items()}
    if wrong := {name: shapes[name] for name in state.routed if shapes[name][:2] != shape}:
        yield f"expected streams of {shape} tokens (B, P + N); saw {wrong}: name in unrouted what no route takes"
        return
    x, t, y = subject.inputs
    other = subject.model.start(-x, t, y)
    for name in state.unrouted:
        if name not in shapes or (len(shapes[name]), shapes[name][0]) != (3, BATCH):
            yield f"expected the unrouted stream {name!r} as (B, M, D) in streams; saw {shapes}"
        elif not torch.equal(other.streams[name], state.streams[name]):
            yield f"expected an unrouted stream {name!r} that knows nothing of the image; saw another for another image"

    # Conditioning, of which a method may take some samples.
    for name, value, axes in (("c", state.c, "(B, D)"), ("context", state.context, "(B, M, D)")):
        is_tensor = isinstance(value, Tensor) and (value.ndim, value.shape[:1]) == (len(axes.split()), (BATCH,))
        if value is not None and not is_tensor:
            yield f"expected {name} as a tensor {axes}, or None; saw {kind(value)}"

    # Each patch changes the token of its place, and no prefix.
    for token in range(spec.num_tokens):
        row, column = (spec.patch * place for place in divmod(token, spec.grid[1]))
        changed = x.clone()
        changed[:, :, row : row + spec.patch, column : column + spec.patch] += 1
        other = subject.model.start(changed, t, y)
        differs = [(other.streams[name] != state.streams[name]).any(2).any(0) for name in state.routed]
        moved = torch.stack(differs).any(0).nonzero().flatten().tolist()
        if any(place < prefix for place in moved) or prefix + token not in moved:
            yield (
                f"expected patch {token}, row by row, in token {prefix + token} and not in the prefix; "
                f"saw it in tokens {moved}"
            )


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
            for problem in _step_problems(step):
                yield f"block {step.block}, {case or 'dense'}: {problem}"


def check_independence(subject: Trial) -> Iterator[str]:
    """A block depends only on its state: two batches that take turns give the same results as each alone."""
    others = subject.others()
    for case in subject.cases:
        other = replace(case, ids=subject.draw_ids(case.route, case.selector))
        alone = [step.after for step in steps(subject.model, subject.start(), case)]
        turns = zip(
            steps(subject.model, subject.start(), case),
            steps(subject.model, subject.model.start(*others), other),
            strict=True,
        )
        for after, (step, _) in zip(alone, turns, strict=True):
            for name, expected in after.streams.items():
                yield from not_equal(
                    f"{case}: stream {name!r} after block {step.block} unmoved by another batch in between",
                    expected,
                    step.after.streams[name],
                    ": keep what blocks share in the state, not on the module",
                )


def check_gradients(subject: Subject) -> Iterator[str]:
    """Every trainable parameter gets a finite gradient that is not all zeros, dense and routed."""
    for case in subject.dense_and_longest:
        gradients = subject.gradients(case)
        if unused := [name for name, gradient in gradients.items() if gradient is None or not gradient.any()]:
            seen = "saw none, or zeros: use the parameter or freeze it"
            yield f"{case or 'dense'}: expected a gradient of {few(unused, SHOWN)}; {seen}"
        yield from _gradients_not_finite(case, gradients)


def check_rate_zero(subject: Trial) -> Iterator[str]:
    """A route that keeps all tokens gives the dense prediction, through gather and scatter.

    Not bit for bit: gathered tokens may have another memory layout, for which a processor may take another kernel.
    """
    dense = subject.predict()
    for case in subject.cases_at(0.0):
        seen = subject.predict(case)
        if not close(dense, seen):
            yield f"{case}: expected the dense prediction; saw a difference of {distance(dense, seen):.1e}"


def check_order(subject: Trial) -> Iterator[str]:
    """Kept ids in another order change nothing if tokens are a set; otherwise they are refused or sorted."""
    is_set = subject.model.family.token_order is TokenOrder.SET
    for case in subject.cases:
        shuffled = subject.shuffled(case.ids)
        try:  # on a GPU ids are not checked, to avoid waiting for it
            seen = subject.predict(replace(case, ids=shuffled if is_set else shuffled.cpu()))
        except ValueError:
            if is_set:
                raise
            continue
        expected = subject.predict(case)
        if not close(expected, seen):
            yield (
                f"{case}: expected the same prediction for the same tokens in another order, or a ValueError; saw a "
                f"difference of {distance(expected, seen):.1e}: announce the token order that the blocks need, and let "
                "what belongs to a token, such as its rotary row, move with it"
            )


def check_text(subject: Subject) -> Iterator[str]:
    """Every text token has an effect on the prediction."""
    x, t, y = subject.inputs
    for case in subject.dense_and_longest if subject.spec.context_shape is not None else ():
        assert y is not None
        text = y.clone().requires_grad_()
        unread = ~read(subject.predict(case, (x, t, text)), text).all(0)
        if unread.any():
            yield f"{case or 'dense'}: expected an effect of every text token; saw none of tokens {_numbers(unread)}"


def check_unrouted(subject: Subject) -> Iterator[str]:
    """Under a route a block reads the same rows of `context` and of unrouted streams as without one."""
    state = subject.start()
    names = [*state.unrouted, *(["context"] if state.context is not None else [])]
    for case, name in product(subject.dense_and_longest[1:], names):
        expected, seen = (
            torch.stack([_rows_read(subject.model, step, name) for step in steps(subject.model, subject.start(), one)])
            for one in (None, case)
        )
        other = (expected != seen).flatten(0, 1).any(0)
        if other.any():
            yield (
                f"{case}: expected every block to read the rows of {name!r} that it reads without a route; saw another "
                f"choice of rows {_numbers(other)}: no route takes {name!r}; keep what belongs to a token in a stream "
                "that leaves with it"
            )


def check_skips(subject: Trial) -> Iterator[str]:
    """A long skip across a route's border equals the same skip expanded and gathered explicitly."""
    for case in subject.cases:
        by_hand = subject.model.finish(with_skips_by_hand(subject.model, subject.start(), case))
        advice = ": read a skip with state.pop_skip()"
        yield from not_equal(f"{case}: the result of explicit skips", by_hand, subject.predict(case), advice)


def check_checkpointing(subject: Trial) -> Iterator[str]:
    """Gradient checkpointing recomputes blocks on the same tokens: prediction and gradients do not change."""
    for case in subject.dense_and_longest:
        expected = subject.predict(case)
        gradients = subject.gradients(case)
        subject.model.gradient_checkpointing = True
        try:
            seen = subject.predict(case)
            again = subject.gradients(case)
        finally:
            subject.model.gradient_checkpointing = False
        if not torch.equal(expected, seen):
            yield from not_equal(f"{case or 'dense'}: the same prediction", expected, seen)
        elif other := [name for name, gradient in gradients.items() if differ(gradient, again[name])]:
            yield f"{case or 'dense'}: expected the same gradient of {few(other, SHOWN)}; saw another"


def check_autocast(subject: Subject) -> Iterator[str]:
    """Under bfloat16 autocast predictions and gradients are finite, dense and routed."""
    for case in subject.dense_and_longest:
        with torch.autocast(subject.device.type, torch.bfloat16):
            out = subject.predict(case)
            gradients = subject.gradients(case)
        yield from _not_finite(f"{case or 'dense'}: a prediction", out)
        yield from _gradients_not_finite(case, gradients)


def check_determinism(subject: Subject) -> Iterator[str]:
    """The same seed gives the same weights, and the same input in eval mode the same prediction."""
    first, second = (subject.fresh().state_dict() for _ in range(2))
    if drawn := [name for name, value in first.items() if not torch.equal(value, second[name])]:
        advice = "draw it from torch's global generator"
        yield f"expected the same initial {few(drawn, SHOWN)} from the same seed; saw another: {advice}"
    yield from not_equal("the same prediction for the same input", subject.predict(), subject.predict())


CHECKS: tuple[Check, ...] = (
    check_shapes,
    check_layout,
    check_blocks,
    check_independence,
    check_gradients,
    check_rate_zero,
    check_order,
    check_text,
    check_unrouted,
    check_skips,
    check_checkpointing,
    check_autocast,
    check_determinism,
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
        subject = Subject(family, spec, kernels, device)
        return run_checks(CHECKS, subject)


def _step_problems(step: Step) -> Iterator[str]:
    before = step.before
    after = step.after
    given, returned = ({n: tuple(s.shape) for n, s in state.streams.items()} for state in (before, after))
    if returned != given:
        yield f"expected streams {given}; saw {returned}"
    for field in ("ids", "positions", "background", "grid", "num_prefix", "unrouted"):
        if getattr(after, field) is not getattr(before, field):
            yield f"expected the state's {field} as it came; saw another: return state.with_streams(...)"
    for name, stream in step.streams.items():
        yield from not_equal(f"stream {name!r} of the state that came unwritten", stream, before.streams[name])
    for name, stream in step.background.items():
        assert before.background is not None
        yield from not_equal(f"bypassed tokens unchanged in stream {name!r}", stream, before.background[name])


def read(result: Tensor, text_BME: Tensor) -> Tensor:
    """Return which text tokens (B, M) a result depends on."""
    weights = torch.linspace(-1, 1, result.numel(), device=result.device).view_as(result)
    (gradient,) = torch.autograd.grad((result * weights).sum(), text_BME, allow_unused=True, materialize_grads=True)
    return gradient.any(2)


def _rows_read(model: Backbone, step: Step, name: str) -> Tensor:
    """Return which rows (B, M) of the context, or of an unrouted stream, a block's tokens depend on."""
    before = replace(step.before, streams={stream: value.detach() for stream, value in step.streams.items()})
    if name in before.unrouted:
        text = before.streams[name].requires_grad_()
    else:
        assert before.context is not None
        text = before.context.detach().requires_grad_()
        before = replace(before, context=text)
    after = model.run_block(step.block, before)
    return read(torch.cat([after.streams[routed].flatten() for routed in after.routed]), text)


def _numbers(mask: Tensor) -> str:
    return few([str(number) for number in mask.nonzero().flatten().tolist()], SHOWN)


def not_equal(what: str, expected: Tensor, seen: Tensor, advice: str = "") -> Iterator[str]:
    if not torch.equal(expected, seen):
        yield f"expected {what}; saw a difference of {distance(expected, seen):.1e}{advice}"


def _not_finite(what: str, value: Tensor) -> Iterator[str]:
    wrong = int((~value.isfinite()).sum())
    if wrong:
        yield f"expected finite values in {what}; saw {wrong} infinite or NaN of {value.numel()}"


def _gradients_not_finite(case: Case | None, gradients: Mapping[str, Tensor | None]) -> Iterator[str]:
    if wrong := [name for name, one in gradients.items() if one is not None and not one.isfinite().all()]:
        yield f"{case or 'dense'}: expected finite gradients; saw infinite or NaN values of {few(wrong, SHOWN)}"


def differ(expected: Tensor | None, seen: Tensor | None) -> bool:
    return expected is not None and (seen is None or not close(expected, seen))


def close(expected: Tensor, seen: Tensor) -> bool:
    return torch.allclose(expected, seen, rtol=0, atol=TOLERANCE * float(expected.detach().abs().max()))


def distance(expected: Tensor, seen: Tensor) -> float:
    return float((expected.detach().float() - seen.detach().float()).abs().max())
