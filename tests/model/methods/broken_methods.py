"""Methods that break one rule each, as variants of TREAD."""

from __future__ import annotations

import random

import torch
from torch import nn

from tread_bench.model.backbone import come_back, leave
from tread_bench.model.methods.base import Method, Prediction, run_range, walk
from tread_bench.model.methods.tread.network import Tread


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


class ShiftsAllTokensFirst(Tread):
    """Keeps its contract: a token that bypasses has the value with which it left."""

    def __init__(self, cell, backbone):
        super().__init__(cell, backbone)
        self.shift = nn.Parameter(torch.ones(()))

    def train_forward(self, backbone, start, batch_range, on_block=None):
        return super().train_forward(backbone, start.with_stream(start.stream() + self.shift), batch_range, on_block)

    def eval_forward(self, backbone, start, on_block=None):
        return super().eval_forward(backbone, start.with_stream(start.stream() + self.shift), on_block)

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
    def changed(self, stream):
        return 1.5 * stream

    def train_forward(self, backbone, start, batch_range, on_block=None):
        kept = self.draw(backbone, batch_range, start.device)

        def inside(number, state):
            *blocks, last = self.routes[number].blocks
            state = run_range(backbone, leave(state, kept[number]), blocks, on_block)
            state = come_back(run_range(backbone, state, [last]))
            state = state.with_stream(self.changed(state.stream()))
            on_block and on_block(last, state)
            return state

        state = walk(backbone, start, {number: self.routes[number] for number in kept}, inside, on_block)
        return Prediction(backbone.finish(state), kept)


class ComesBackToTheNext(MovesThoseThatBypass):
    def changed(self, stream):
        return stream.roll(1, dims=1)


class SendsGradientsElsewhere(MovesThoseThatBypass):
    def changed(self, stream):
        elsewhere = stream.roll(1, dims=1)
        return stream.detach() + elsewhere - elsewhere.detach()


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
