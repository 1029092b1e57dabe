"""Methods that break one rule each, as variants of TREAD."""

from __future__ import annotations

import random

import torch
from torch import nn

from tread_bench.model.backbone import come_back, leave
from tread_bench.model.methods.base import Method, run_range, walk
from tread_bench.model.methods.tread.network import Tread
from tread_bench.model.prediction import Prediction


class OwnsParametersUnsaid(Tread):
    def __init__(self, cell, backbone):
        super().__init__(cell, backbone)
        self.scale = nn.Parameter(torch.ones(()))

    def eval_forward(self, backbone, start, on_block=None):
        return super().eval_forward(backbone, start, on_block) * self.scale

    def train_forward(self, backbone, start, batch_range, on_block=None):
        prediction = super().train_forward(backbone, start, batch_range, on_block)
        return Prediction(prediction.output * self.scale, prediction.kept)

    def init_module(self, name, module):
        pass


class TrainsOneInVain(OwnsParametersUnsaid):
    def __init__(self, cell, backbone):
        super().__init__(cell, backbone)
        self.unused = nn.Parameter(torch.ones(()))


class EvaluatesOtherwise(Tread):
    def eval_forward(self, backbone, start, on_block=None):
        return super().eval_forward(backbone, start, on_block) + 0.1


class RoutesNothing(Tread):
    def train_forward(self, backbone, start, batch_range, on_block=None):
        return Prediction(self.eval_forward(backbone, start, on_block), self.draw(backbone, batch_range, start.device))


class NamesOtherTokens(Tread):
    def train_forward(self, backbone, start, batch_range, on_block=None):
        prediction = super().train_forward(backbone, start, batch_range, on_block)
        return Prediction(prediction.output, {number: ids[:, 1:] for number, ids in prediction.kept.items()})


class DrawsFromTorch(Tread):
    def train_forward(self, backbone, start, batch_range, on_block=None):
        prediction = super().train_forward(backbone, start, batch_range, on_block)
        return Prediction(prediction.output + (torch.rand(()) if batch_range.routing else 0.0), prediction.kept)


class KeepsAState(Tread):
    def __init__(self, cell, backbone):
        super().__init__(cell, backbone)
        self.noise = random.random()  # in no state dict

    def train_forward(self, backbone, start, batch_range, on_block=None):
        prediction = super().train_forward(backbone, start, batch_range, on_block)
        return Prediction(prediction.output + (self.noise if batch_range.routing else 0.0), prediction.kept)


class HasAPathUnsaid(Tread):
    def shallow_forward(self, backbone, start):
        return backbone.finish(start)


class TrainsByAnOptionOfEvaluation(Tread):
    """It says that `detach` changes the evaluation alone."""

    def __init__(self, cell, backbone):
        super().__init__(cell, backbone)
        self.scale = 0.5 if cell.method.detach else 1.0

    def train_forward(self, backbone, start, batch_range, on_block=None):
        prediction = super().train_forward(backbone, start, batch_range, on_block)
        return Prediction(prediction.output * self.scale, prediction.kept)

    def eval_forward(self, backbone, start, on_block=None):
        return super().eval_forward(backbone, start, on_block) * self.scale


class MovesThoseThatBypass(Tread):
    def train_forward(self, backbone, start, batch_range, on_block=None):
        kept = self.draw(backbone, batch_range, start.device)

        def inside(number, state):
            *blocks, last = self.routes[number].blocks
            state = run_range(backbone, leave(state, kept[number]), blocks, on_block)
            state = come_back(run_range(backbone, state, [last]))
            state = state.with_stream(1.5 * state.stream())
            on_block and on_block(last, state)
            return state

        state = walk(backbone, start, {number: self.routes[number] for number in kept}, inside, on_block)
        return Prediction(backbone.finish(state), kept)


class IgnoresTheSelector(Tread):
    def __init__(self, cell, backbone):
        super().__init__(cell.model_copy(update={"selector": "random"}), backbone)


class ReturnsATensor(Tread):
    def train_forward(self, backbone, start, batch_range, on_block=None):
        return super().train_forward(backbone, start, batch_range, on_block).output


class ForgetsToStep(Method):
    pass


class DrawsNoWeights(Tread):
    def __init__(self, cell, backbone):
        super().__init__(cell, backbone)
        self.scale = nn.Parameter(torch.ones(()))


class MergesPairs(Method):
    """Keeps its contract: each pair of neighbours passes as its mean, which comes back to both.

    Variants write it elsewhere.
    """

    draws_masks = False

    def train_forward(self, backbone, start, batch_range, on_block=None):
        tokens = torch.arange(backbone.spec.num_tokens).expand(start.batch, -1)
        kept = {0: tokens[:, ::2]} if batch_range.routing else {}

        def inside(number, state):
            mean = state.stream().unflatten(1, (-1, 2)).mean(2)
            merged = leave(state, kept[number]).with_stream(mean)
            merged = run_range(backbone, merged, self.routes[number].blocks, on_block)
            return come_back(merged).with_stream(self.unmerged(merged.stream()))

        state = walk(backbone, start, {number: self.routes[number] for number in kept}, inside, on_block)
        return Prediction(backbone.finish(state), kept)

    def unmerged(self, after):
        return after.repeat_interleave(2, dim=1)


class UnmergesToTheNext(MergesPairs):
    def unmerged(self, after):
        return after.repeat_interleave(2, dim=1).roll(1, dims=1)


class SendsGradientsElsewhere(MergesPairs):
    def unmerged(self, after):
        elsewhere = torch.cat([after, after], dim=1)
        return super().unmerged(after).detach() + elsewhere - elsewhere.detach()
