"""A small backbone that keeps the contract, and what breaks when an author forgets one thing.

Each class under `Sound` names the check that must find it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import torch
from torch import nn

from tread_bench.core.describe.families import BackboneSpec, Family, TextSpec
from tread_bench.core.describe.selectors import TokenOrder
from tread_bench.model.backbone import Backbone, TokenState
from tread_bench.model.ops.patching import unpatchify
from tread_bench.model.ops.routing import gather_tokens

BLOCKS, WIDTH = 4, 8
SPEC = BackboneSpec(image_size=8, channels=2, num_classes=3, patch=2)
TEXT_SPEC = TextSpec(image_size=8, channels=2, num_classes=0, patch=2, context_tokens=16, context_dim=5)


SOUND = Family(
    name="Sound",
    spec=BackboneSpec,
    published={},
    token_order=TokenOrder.SEQUENCE,
    num_blocks=lambda spec: BLOCKS,
    num_prefix=lambda spec: 1,
    builder=f"{__name__}:Sound",
)


class Sound(Backbone):
    """Two streams, a prefix token, a running mean as scan, and a long skip from the second block to the last."""

    family = SOUND
    tried_on = SPEC

    def __init__(self, spec, kernels):
        super().__init__()
        self.patches = nn.Conv2d(spec.channels, WIDTH, spec.patch, spec.patch)
        self.position = nn.Parameter(torch.empty(spec.num_tokens, WIDTH))
        self.label = nn.Embedding(spec.num_classes + 1, WIDTH)
        self.time = nn.Linear(1, WIDTH)
        self.mix = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(BLOCKS))
        self.join = nn.Linear(2 * WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, spec.patch**2 * spec.channels)

    def embed(self, x, t, y):
        prefix = (self.label(y) + self.time(t[:, None])).unsqueeze(1)
        hidden = self.sequence(prefix, self.patches(x).flatten(2).transpose(1, 2) + self.position)
        return TokenState({"hidden": hidden, "residual": torch.zeros_like(hidden)}, grid=self.spec.grid, num_prefix=1)

    def sequence(self, prefix, patches):
        return torch.cat([prefix, patches], dim=1)

    def run_block(self, block, state):
        if block == BLOCKS - 1:
            state = self.read_skip(state)
        residual = state.streams["residual"] + state.streams["hidden"]
        state = state.with_streams(hidden=self.scan(block, residual), residual=residual)
        return self.save_skip(state) if block == 1 else state

    def scan(self, block, x):
        steps = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return self.mix[block](x + x.cumsum(dim=1) / steps).tanh()

    def save_skip(self, state):
        return state.push_skip("hidden")

    def read_skip(self, state):
        skip, state = state.pop_skip()
        return state.with_streams(hidden=self.join(torch.cat([state.streams["hidden"], skip], dim=-1)))

    def head(self, state):
        return unpatchify(self.out(state.stream()[:, 1:]), state.grid, self.spec.patch)

    def init_module(self, name, module):
        if module is self:
            nn.init.normal_(self.position)
        else:
            super().init_module(name, module)


class WrongShape(Sound):
    """Gives tokens for an image."""

    found_by = "shapes"

    def head(self, state):
        return self.out(state.stream()[:, 1:])


class SpecWithVariance(BackboneSpec):
    @property
    def out_channels(self):
        return 2 * self.channels


class LacksTheVariance(Sound):
    """Says that it can compute a variance and computes the prediction alone."""

    found_by = "shapes"
    tried_on = SpecWithVariance(image_size=8, channels=2, num_classes=3, patch=2)


class RoutedPrefix(Sound):
    """Forgets to tell that the first token is a prefix."""

    found_by = "layout"

    def embed(self, x, t, y):
        return replace(super().embed(x, t, y), num_prefix=0)


class ColumnByColumn(Sound):
    """Hands the patches over column by column, so that selectors take other tokens than they say."""

    found_by = "layout"

    def sequence(self, prefix, patches):
        turned = patches.unflatten(1, self.spec.grid).transpose(1, 2).flatten(1, 2)
        return super().sequence(prefix, turned)


class LosesIds(Sound):
    """Builds a new state and forgets which tokens are present."""

    found_by = "blocks"

    def run_block(self, block, state):
        return replace(super().run_block(block, state), ids=None)


class WritesInPlace(Sound):
    """Writes into the stream that it was given, which a long skip or a background may hold as well."""

    found_by = "blocks"

    def run_block(self, block, state):
        state.streams["hidden"].mul_(0.5)
        return super().run_block(block, state)


class TooFewBlocks(Sound):
    """Has a block less than its family says."""

    found_by = "blocks"

    def __init__(self, spec, kernels):
        super().__init__(spec, kernels)
        del self.mix[-1]


class ContextOfParts(Sound):
    """Hands its context on as a dict, of which a method cannot take some samples."""

    found_by = "layout"

    def embed(self, x, t, y):
        return replace(super().embed(x, t, y), context={"text": self.label(y).unsqueeze(1)})


class ConditionForAll(Sound):
    """Has one row of conditioning for the whole batch."""

    found_by = "layout"

    def embed(self, x, t, y):
        return replace(super().embed(x, t, y), c=self.time(t[:1, None]))


class ConditionOnTheModule(Sound):
    """Keeps its conditioning beside the state."""

    found_by = "independence"

    def embed(self, x, t, y):
        self.seen = self.label(y) + self.time(t[:, None])
        return super().embed(x, t, y)

    def run_block(self, block, state):
        hidden = state.streams["hidden"] + self.seen.unsqueeze(1)
        return super().run_block(block, state.with_streams(hidden=hidden))


class UnusedParameter(Sound):
    """Owns a layer that nothing calls."""

    found_by = "gradients"

    def __init__(self, spec, kernels):
        super().__init__(spec, kernels)
        self.unused = nn.Linear(WIDTH, WIDTH)


class ScalesInsideARoute(Sound):
    """Computes something else as soon as ids are there."""

    found_by = "rate_zero"

    def scan(self, block, x):
        return super().scan(block, x) * (1 if self.dense else 1.01)

    def run_block(self, block, state):
        self.dense = state.ids is None
        return super().run_block(block, state)


class WritesIntoBypassed(Sound):
    """Updates the tokens that left."""

    found_by = "blocks"

    def run_block(self, block, state):
        if state.background is not None:
            state.background["residual"].add_(1)
        return super().run_block(block, state)


class WindowsAnnouncedAsSet(Sound):
    """Mixes pairs of the tokens present, whichever they are, which a reversed order would not show."""

    found_by = "order"
    family = replace(SOUND, token_order=TokenOrder.SET)

    def scan(self, block, x):
        prefix, tokens = x.split([1, x.shape[1] - 1], dim=1)
        pairs = tokens.unflatten(1, (-1, 2)) if tokens.shape[1] % 2 == 0 else tokens.unsqueeze(2)
        mixed = (pairs + pairs.mean(dim=2, keepdim=True)).flatten(1, 2)
        return self.mix[block](torch.cat([prefix, mixed], dim=1)).tanh()


class AcceptsUnsortedIds(Sound):
    """Scans, and lets ids pass in any order."""

    found_by = "order"

    def check_ids(self, routes, ids, state):
        pass


class SkipNotGathered(Sound):
    """Takes as many tokens of a long skip as are present, whichever they are."""

    found_by = "skips"

    def read_skip(self, state):
        skip = state.skips[-1].value[:, : state.streams["hidden"].shape[1]]
        return state.with_streams(hidden=self.join(torch.cat([state.streams["hidden"], skip], dim=-1)))


class OtherTokensWhenComputedAgain(Sound):
    """Drops channels by a count of its own calls, which a second computation of the block moves on."""

    found_by = "checkpointing"

    def __init__(self, spec, kernels):
        super().__init__(spec, kernels)
        self.calls = count()

    def scan(self, block, x):
        return super().scan(block, x) * (torch.arange(WIDTH, device=x.device) != next(self.calls) % WIDTH)


class NotFiniteInBfloat16(Sound):
    """Masks with the lowest float32, which bfloat16 rounds to minus infinity."""

    found_by = "autocast"

    def scan(self, block, x):
        mixed = super().scan(block, x)
        lowest = torch.full_like(mixed, torch.finfo(torch.float32).min)
        return mixed + lowest.softmax(dim=-1)


class DropsInEval(Sound):
    """Drops out in eval mode as well."""

    found_by = "determinism"

    def scan(self, block, x):
        return nn.functional.dropout(super().scan(block, x), 0.1)


class RefusesAllRoutes(Sound):
    """Its family accepts no route, so that nothing can be routed."""

    found_by = "blocks"
    family = replace(SOUND, selectors=("none",))


class WithText(Sound):
    """A sound one whose blocks attend to a text, which has as many tokens as the image."""

    family = replace(SOUND, name="WithText", spec=TextSpec, builder=f"{__name__}:WithText")
    tried_on = TEXT_SPEC

    def __init__(self, spec, kernels):
        super().__init__(spec, kernels)
        del self.label
        self.text = nn.Linear(spec.context_dim, WIDTH)

    def embed(self, x, t, y):
        patches = self.patches(x).flatten(2).transpose(1, 2) + self.position
        hidden = self.sequence(self.time(t[:, None]).unsqueeze(1), patches)
        streams = {"hidden": hidden, "residual": torch.zeros_like(hidden)}
        return TokenState(streams, grid=self.spec.grid, num_prefix=1, context=self.text(y))

    def run_block(self, block, state):
        hidden, text = state.streams["hidden"], self.rows(state)
        read = (hidden @ text.mT).softmax(dim=-1) @ text
        return super().run_block(block, state.with_streams(hidden=hidden + read))

    def rows(self, state):
        return state.context


class TextAsImageTokens(WithText):
    """Puts its text in front of the patches and calls none of it a prefix, so that it would be routed."""

    found_by = "layout"

    def embed(self, x, t, y):
        state = super().embed(x, t, y)
        return state.with_streams(**{name: torch.cat([state.context, s], 1) for name, s in state.streams.items()})


class TextGatheredByIds(WithText):
    """Takes rows of its text by the ids of the image tokens present."""

    found_by = "unrouted"

    def rows(self, state):
        return state.context if state.ids is None else gather_tokens(state.context, state.ids)


class PartOfTheText(WithText):
    """Reads the first half of its text."""

    found_by = "text"

    def rows(self, state):
        return state.context[:, :8]


class TwoStreams(WithText):
    """A sound one whose text is a stream of its own: blocks change it and the image together, and no route takes it."""

    family = replace(
        SOUND, name="TwoStreams", spec=TextSpec, token_order=TokenOrder.SET, builder=f"{__name__}:TwoStreams"
    )
    tried_on = TEXT_SPEC.model_copy(update={"context_tokens": 6})

    def embed(self, x, t, y):
        state = super().embed(x, t, y)
        streams = {**state.streams, "text": state.context}
        return replace(state, streams=streams, context=None, unrouted=("text",), residual=("hidden", "residual"))

    def run_block(self, block, state):
        streams = state.streams["hidden"], state.streams["text"]
        both = torch.cat(streams, dim=1)
        hidden, text = (own + (own @ both.mT).softmax(dim=-1) @ both for own in streams)
        return Sound.run_block(self, block, state.with_streams(hidden=hidden.tanh(), text=text.tanh()))

    def scan(self, block, x):
        return self.mix[block](x + x.mean(dim=1, keepdim=True)).tanh()


class TextKnowsTheImage(TwoStreams):
    """Puts a summary of the image into the stream that no route takes."""

    found_by = "layout"

    def embed(self, x, t, y):
        state = super().embed(x, t, y)
        return state.with_streams(text=state.streams["text"] + state.streams["hidden"].mean(1, keepdim=True))


class TextStreamCutByARoute(TwoStreams):
    """Reads under a route only the first row of the stream that no route takes."""

    found_by = "unrouted"

    def run_block(self, block, state):
        text = state.streams["text"]
        if state.ids is not None:
            text = text[:, :1].expand_as(text)
        return super().run_block(block, state.with_streams(text=text))


SOUND_ONES = [Sound, WithText, TwoStreams]
BROKEN = [one for sound in SOUND_ONES for one in sound.__subclasses__() if one not in SOUND_ONES]


def broken_family(broken):
    """The family that announces a broken backbone."""
    return replace(broken.family, name=broken.__name__, builder=f"{__name__}:{broken.__name__}")
