"""The method itself."""

from __future__ import annotations

import torch

from tread_bench import Method, Prediction, come_back, leave, run_range, walk


class MeanFill(Method):
    """Evaluated with all tokens, as the plain backbone."""

    def __init__(self, cell, backbone):
        super().__init__(cell, backbone)
        self.keep_own = cell.method.keep_own

    def train_forward(self, backbone, start, batch_range, on_block=None):
        kept = self.draw(backbone, batch_range, start.device)  # ids (B, K) by number of the route

        def inside(number, state):
            blocks = self.routes[number].blocks
            state = run_range(backbone, leave(state, kept[number]), blocks, on_block)
            mean_B1D = state.stream()[:, state.num_prefix :].mean(1, keepdim=True)
            return self._fill(come_back(state), kept[number], mean_B1D)

        routes = {number: self.routes[number] for number in kept}
        state = walk(backbone, start, routes, inside, on_block)
        return Prediction(backbone.finish(state), kept)

    def _fill(self, state, kept_BK, mean_B1D):
        """The tokens that were absent are part of what they held before, and part of the mean."""
        stream = state.stream()
        absent = torch.ones(stream.shape[:2], dtype=torch.bool, device=stream.device)
        absent[:, : state.num_prefix] = False
        absent = absent.scatter(1, kept_BK + state.num_prefix, False).unsqueeze(2)
        return state.with_stream(torch.where(absent, torch.lerp(mean_B1D, stream, self.keep_own), stream))
