"""TREAD with rates by noise level: groups of samples, at equal parts of the training times, each with its own rates.

Not from a paper; DiffCR (arXiv 2412.16822) learns ratios by layer and time step, and leaves out more where there is
more noise. A sample's group follows from its own training time. So the numbers of samples per group are random, and the
loss, a mean over samples, weighs groups by them. Costs are the expectation: groups are equally probable.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from tread_bench.core.config.suite import Cell
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, come_back, leave
from tread_bench.model.methods.base import BatchRange, Method, run_range, walk
from tread_bench.model.methods.samples import only, put_back
from tread_bench.model.methods.tread_by_noise.family import TreadByNoiseOptions
from tread_bench.model.prediction import Prediction

_GROUPS = "noise group"  # stream of the samples' groups


class TreadByNoise(Method):
    """Tokens bypass routes as under TREAD, at rates by the samples' training times. Evaluated dense.

    `on_block` is not called inside a route, where samples differ in their number of tokens.
    """

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, TreadByNoiseOptions)
        self.shares = cell.method.shares
        self.objective = cell.objective

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        # The samples of each group, and the tokens that they keep; the host knows how many samples there are.
        groups = self._groups(batch_range)
        counts = np.bincount(groups, minlength=len(self.shares)).tolist()
        ahead = batch_range.drawn.get(_GROUPS)
        group_of_B = torch.from_numpy(groups).to(start.device) if ahead is None else ahead
        samples = group_of_B.argsort(stable=True).split(counts)
        kept = [self.draw(backbone, self._at(batch_range, share), start.device) for share in self.shares]

        # All blocks, those of a route group by group.
        def inside(number: int, state: TokenState) -> TokenState:
            for chosen, ids in zip(samples, kept, strict=True):
                if not len(chosen):
                    continue
                part = only(state, chosen)
                if number in ids:
                    part = leave(part, ids[number][chosen])
                part = run_range(backbone, part, self.routes[number].blocks)
                state = put_back(state, chosen, come_back(part) if number in ids else part)
            return state

        left = sorted({number for ids in kept for number in ids})
        state = walk(backbone, start, {number: self.routes[number] for number in left}, inside, on_block)
        return Prediction(backbone.finish(state))

    def with_masks(self, backbone: Backbone, batch_range: BatchRange) -> BatchRange:
        drawn = [super(TreadByNoise, self).with_masks(backbone, self._at(batch_range, one)) for one in self.shares]
        masks = {key: ids for one in drawn for key, ids in one.masks.items()}
        return replace(batch_range, masks=masks, drawn={_GROUPS: torch.from_numpy(self._groups(batch_range))})

    def _at(self, batch_range: BatchRange, share: float) -> BatchRange:
        return replace(batch_range, routing=batch_range.routing * share)

    def _groups(self, batch_range: BatchRange) -> np.ndarray:
        """The group (B,) of each sample, by the time that it is trained at."""
        ranks = self.objective.time_ranks(batch_range.seed, batch_range.first, batch_range.count)
        return np.floor(ranks * len(self.shares)).astype(np.int64)
