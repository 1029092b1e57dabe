"""Wrapped networks with text beside the image: dense as they were, routed as their own blocks compute by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from tests.model.own_network import AdaBlock
from tests.model.two_streams import BATCH, KINDS, LENGTHS, TEXT, built, normal, shown, wrappings
from tread_bench import RoutedNetwork, TokenSequence
from tread_bench.contract import check_wrapped
from tread_bench.core.describe.routes import resolve_routes
from tread_bench.model.backbone import run_blocks
from tread_bench.model.ops.routing import lowest

ALL = pytest.mark.parametrize("kind", KINDS)
ROUTES = {"flux": ["0:2", "1:4", "3:5"]}  # in dual blocks, across the border, in single blocks
EXACT = {"sd3": 1e-11, "pixart": 1e-11}  # the others compute parts in float32, whatever the dtype of their weights
TOKENS = {"wan": 12}  # 2 frames of 3 x 2 patches


def ids_of(kind, rate=0.5, seed=2):
    tokens = TOKENS.get(kind, 16)
    scores = torch.rand(BATCH, tokens, generator=torch.Generator().manual_seed(seed))
    return lowest(scores, tokens - int(tokens * rate))


def of_samples(inputs, samples):
    """x, t and y of these samples; what samples share stays."""
    x, t, y = inputs
    take = (
        {name: one[samples] if len(one) == BATCH else one for name, one in y.items()} if isinstance(y, dict) else None
    )
    return x[samples], t[samples], y[samples] if take is None else take


def as_double(given):
    if isinstance(given, dict):
        return {name: as_double(one) for name, one in given.items()}
    return given.double() if given.is_floating_point() else given


def weighted(out):
    """A loss in which every output counts differently."""
    return (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum()


# --- dense ------------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("training", [True, False])
def test_without_routes_it_is_the_network_itself(kind, training):
    """To 1e-5 in float32: the page's code lays tokens out its own way, and sums Ernie's times over them."""
    made = built(kind)
    routed = made.routed.train(training)
    expected, seen = made.itself(*made.inputs), routed(*made.inputs)
    torch.testing.assert_close(seen, expected, rtol=1e-5, atol=1e-5)
    parameters = list(made.net.parameters())
    assert [id(p) for p in routed.parameters()] == [id(p) for p in parameters]
    gradients = (torch.autograd.grad(weighted(out), parameters) for out in (expected, seen))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(routed(*made.inputs, routes="1:2@0.5"), expected, rtol=1e-3)  # on request, in both modes


# --- routed: the network's own forward, sample by sample, with rows gathered by hand ----------------------------------


def taken(kind, args, kwargs, kept):
    """The arguments of a block, of one sample, with the rows of these image tokens and of all text; not the tokens."""
    if kind == "flux":
        rows = [*range(TEXT), *(TEXT + token for token in kept)]
        mask = kwargs["joint_attention_kwargs"]["attention_mask"][..., rows]
        rotary = tuple(table[rows] for table in kwargs["image_rotary_emb"])
        return args, {**kwargs, "image_rotary_emb": rotary, "joint_attention_kwargs": {"attention_mask": mask}}
    if kind == "wan":
        tokens, text, time, rotary = args
        return (tokens, text, time, tuple(table[:, kept] for table in rotary)), kwargs
    if kind == "ernie":
        rows = [*kept, *range(16, 16 + TEXT)]
        tokens, rotary, time, mask = args
        return (tokens, rotary[:, rows], [part[rows] for part in time], mask[..., rows]), kwargs
    return args, kwargs


def by_hand(kind, made, start, end, ids):
    """The network's own forward of each sample alone; hooks on its blocks take tokens out and put them back."""
    outputs = []
    for sample, kept in enumerate(ids.tolist()):
        whole = {}
        dim = 0 if kind == "ernie" else 1  # of the sequence
        rows = [*kept, *range(16, 16 + TEXT)] if kind == "ernie" else kept

        def enter(block, args, kwargs, whole=whole, kept=kept, rows=rows, dim=dim):
            args, kwargs = taken(kind, args, kwargs, kept)
            if block is made.blocks[start]:
                whole["tokens"] = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
                inside = whole["tokens"].index_select(dim, torch.tensor(rows))
                if "hidden_states" in kwargs:
                    kwargs = {**kwargs, "hidden_states": inside}
                else:
                    args = (inside, *args[1:])
            return args, kwargs

        def leave(block, args, kwargs, output, whole=whole, rows=rows, dim=dim):
            if block is not made.blocks[end]:
                return output
            image = output[1] if isinstance(output, tuple) else output
            back = whole["tokens"].index_copy(dim, torch.tensor(rows), image)
            return (output[0], back) if isinstance(output, tuple) else back

        hooks = [block.register_forward_pre_hook(enter, with_kwargs=True) for block in made.blocks[start : end + 1]]
        hooks += [made.blocks[end].register_forward_hook(leave, with_kwargs=True)]
        outputs.append(made.itself(*of_samples(made.inputs, slice(sample, sample + 1))))
        for hook in hooks:
            hook.remove()
    return torch.cat(outputs)


@pytest.mark.parametrize(("kind", "route"), [(kind, route) for kind in KINDS for route in ROUTES.get(kind, ["1:2"])])
def test_routed_it_is_its_own_blocks_with_rows_gathered_by_hand_in_float64(kind, route):
    made = built(kind)
    made.net.double()
    made.inputs = tuple(as_double(one) for one in made.inputs)
    ids = ids_of(kind)
    seen = made.routed(*made.inputs, routes=f"{route}@0.5", ids=[ids])
    expected = by_hand(kind, made, *map(int, route.split(":")), ids)
    tolerance = EXACT.get(kind, 1e-6)
    torch.testing.assert_close(seen, expected, rtol=tolerance, atol=tolerance)
    assert not torch.allclose(seen, made.itself(*made.inputs), rtol=1e-3, atol=1e-3)
    parameters = list(made.net.parameters())
    gradients = [torch.autograd.grad(weighted(out), parameters) for out in (expected, seen)]
    largest = max(one.abs().max().item() for one in gradients[0])  # that of a key's bias is zero
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(other, one, rtol=10 * tolerance, atol=10 * tolerance * largest)


@pytest.mark.parametrize("kind", ["flux", "pixart", "ernie"])  # those with a mask for text
def test_captions_of_different_lengths_are_those_of_each_sample_alone_without_padding(kind):
    made = built(kind)
    ids = ids_of(kind)
    seen = made.routed(*made.inputs, routes="1:3@0.5", ids=[ids])
    for sample, length in enumerate(LENGTHS.tolist()):
        x, t, y = of_samples(made.inputs, slice(sample, sample + 1))
        cut = {name: one[:, :length] for name, one in y.items() if name in ("encoder_hidden_states", "text_bth")}
        cut |= {"text_mask": y["text_mask"][:, :length]} if "text_mask" in y else {}
        cut |= {"txt_ids": y["txt_ids"][:length]} if "txt_ids" in y else {}
        alone = made.routed(x, t, {**y, **cut}, routes="1:3@0.5", ids=[ids[sample : sample + 1]])
        torch.testing.assert_close(seen[sample : sample + 1], alone, rtol=1e-4, atol=1e-4)

    # Whatever stands in the padding.
    x, t, y = made.inputs
    text = "text_bth" if kind == "ernie" else "encoder_hidden_states"
    padding = (torch.arange(TEXT) >= LENGTHS[:, None]).unsqueeze(2)
    other = {**y, text: y[text] + 3 * padding}
    torch.testing.assert_close(made.routed(x, t, other, routes="1:3@0.5", ids=[ids]), seen, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_rows_that_need_no_gradient_are_gathered_once_per_route_and_dtype():
    """Ernie's time embeddings in bfloat16, and in float32 for the block after a route, which starts another route."""
    made = built("ernie")
    made.net.requires_grad_(False)
    rows = []
    own = made.routed._functions["call"]

    def call(net, block, tokens, *given):
        rows.append(tokens.rows)
        return own(net, block, tokens, *given)

    made.routed._functions["call"] = call
    ids = [ids_of("ernie"), ids_of("ernie", seed=3)]
    with torch.autocast("cpu", torch.bfloat16):
        state = made.routed.start(*made.inputs)
        run_blocks(made.routed, state, resolve_routes("0:0@0.5,1:3@0.5", 4), ids, float32_after_route=True)
    assert [one["time"].dtype for one in rows] == [torch.bfloat16, torch.float32, torch.bfloat16, torch.bfloat16]
    assert rows[2]["time"] is rows[3]["time"] and rows[1]["mask"] is rows[3]["mask"]
    assert all(one["mask"].dtype == torch.bool for one in rows)
    for sample, kept in enumerate(ids[1].tolist()):
        whole = state.tables["rotary"][sample]
        assert torch.equal(rows[3]["rotary"][sample], whole[[*kept, *range(16, 16 + TEXT)]])


# --- where tokens stand -----------------------------------------------------------------------------------------------


class Between(torch.nn.Module):
    """A class token, the image, and text behind it, in one sequence."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Parameter(torch.randn(1, 1, 16))
        self.text = torch.nn.Linear(10, 16)
        self.blocks = torch.nn.ModuleList(AdaBlock(16, num_heads=2) for _ in range(4))

    def tokens(self, x, y):
        return torch.cat([self.first.expand(len(x), -1, -1), x, self.text(y)], dim=1)

    def forward(self, x, t, y):
        tokens = self.tokens(x, y)
        for block in self.blocks:
            tokens = block(tokens, t)
        return tokens


@pytest.mark.parametrize("two_streams", [False, True])
def test_tokens_that_are_never_routed_may_stand_on_both_sides(two_streams):
    torch.manual_seed(0)
    net = Between().double()

    def call(net, block, tokens, t):
        after = block(tokens.tokens, t)
        whole = replace(tokens, tokens=after)
        assert whole.text.shape[1:] == (1 + TEXT, 16)
        return tokens.join(whole.image, whole.text) if two_streams else after

    routed = RoutedNetwork(
        net,
        embed=lambda net, x, t, y: (TokenSequence(net.tokens(x, y), slice(1, 17)), t),
        blocks=lambda net: net.blocks,
        call=call,
        head=lambda net, tokens, t: tokens.tokens,
    )
    x, t, y = (as_double(one) for one in (normal(BATCH, 16, 16), normal(BATCH, 16), normal(BATCH, TEXT, 10)))
    assert torch.equal(routed(x, t, y), net(x, t, y))
    assert check_wrapped(routed, x, t, y) == []

    # By hand.
    ids = ids_of("own")
    tokens = net.blocks[0](net.tokens(x, y), t)
    places = torch.cat([torch.zeros(BATCH, 1).long(), 1 + ids, torch.arange(17, 17 + TEXT).expand(BATCH, -1)], dim=1)
    samples = torch.arange(BATCH)[:, None]
    expected = tokens.clone()
    expected[samples, places] = net.blocks[2](net.blocks[1](tokens[samples, places], t), t)
    expected = net.blocks[3](expected, t)
    seen = routed(x, t, y, routes="1:2@0.5", ids=[ids])
    torch.testing.assert_close(seen, expected, rtol=1e-12, atol=1e-12)


# --- the checks -------------------------------------------------------------------------------------------------------


@ALL
def test_the_page_s_wrappings_keep_to_the_checks(kind):
    made = built(kind)
    assert check_wrapped(made.routed, *made.inputs, original=made.itself) == []


PAGE = wrappings()


def flux_with(call):
    """FLUX, wrapped with another call."""
    return lambda net: RoutedNetwork(
        net,
        embed=PAGE["embed_flux"],
        blocks=lambda net: [*net.transformer_blocks, *net.single_transformer_blocks],
        call=call,
        head=lambda net, tokens, time: net.proj_out(net.norm_out(tokens.tokens[:, -16:], time)),
    )


def with_rows(change):
    """`call` with other rows."""
    return lambda net, block, tokens, time: PAGE["call_flux"](
        net, block, replace(tokens, rows={name: change(name, one) for name, one in tokens.rows.items()}), time
    )


def mask_when_whole(net, block, tokens, time):
    """A padding mask that is passed on only where it fits all tokens."""
    mask = tokens.rows["mask"]
    rows = {**tokens.rows, "mask": mask if mask.shape[1] == TEXT + 16 else torch.ones_like(mask)}
    return PAGE["call_flux"](net, block, replace(tokens, rows=rows), time)


BROKEN = [
    (
        "rows",
        flux_with(call=with_rows(lambda name, one: one if name == "mask" else one[:1].expand_as(one))),
        r"route .*: expected sample 1 as it is alone; saw .*: it depends on another sample; give a block each sample's",
    ),
    (
        "text",
        flux_with(call=mask_when_whole),
        r"to be read as without a route; saw that 2, 3, 4 of them are not: pass the rows of a padding mask on in",
    ),
]


@pytest.mark.parametrize(("check", "wrap", "message"), BROKEN)
def test_a_broken_wrapping_is_found_and_named(check, wrap, message):
    made = built("flux")
    violations = check_wrapped(wrap(made.net), *made.inputs, original=made.itself)
    assert any(one.check == check and re.search(message, one.message) for one in violations), violations


# --- what the page shows ----------------------------------------------------------------------------------------------


def test_the_page_s_training_loop_routes_and_learns():
    made = built("flux")
    (loop,) = shown("in batches")
    counts = []
    made.blocks[3].register_forward_pre_hook(lambda block, args: counts.append(args[0].shape[1]))
    x, t, y = made.inputs
    target = x.flip(1)
    names = {**PAGE, "transformer": made.net, "seed": 0, "rank": 0}
    names["optimizer"] = torch.optim.AdamW(made.net.parameters(), lr=3e-3)
    losses = []
    for steps in (1, 30):
        exec(loop, names := {**names, "batches": [(x, t, y, target)] * steps})
        losses.append((made.routed(x, t, y) - target).square().mean().item())
    assert losses[1] < 0.7 * losses[0]
    assert set(counts) == {8, 16} and counts.count(16) == 2


def test_the_page_s_check_finds_nothing(capsys):
    made = built("flux")
    (check,) = shown("import check_wrapped")
    x, t, y = made.inputs
    exec(check, {**PAGE, "transformer": made.net, "routed": made.routed, "x": x, "t": t, "y": y})
    assert capsys.readouterr().out == ""
