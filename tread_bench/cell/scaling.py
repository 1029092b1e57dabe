"""Loss scaling: small gradients are not rounded to zero in float16 (Micikevicius et al., ICLR 2018, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

SMALLEST_SCALE = 1e-4  # where fairseq gives up too: the scale is not why gradients still overflow


class LossScaler:
    """Backward pass and optimiser step under a scale that halves where gradients overflow; `enabled` False: 1.

    A step whose gradients overflow leaves the weights unchanged and is counted. Nothing here waits for the device.
    """

    def __init__(self, device: torch.device, enabled: bool) -> None:
        self.enabled = enabled
        self._scaler = torch.amp.GradScaler(device.type, enabled=enabled)
        self._one = torch.ones((), device=device)
        self._skipped = torch.zeros((), dtype=torch.long, device=device)

    @property
    def skipped_steps(self) -> int:
        """How many steps left the weights unchanged."""
        return int(self._skipped)

    @property
    def collapsed(self) -> bool:
        """Whether gradients overflow at any scale."""
        return self._scaler.get_scale() < SMALLEST_SCALE

    def backward(self, loss: Tensor) -> None:
        self._scaler.scale(loss).backward()

    def step(
        self, optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], gradient_clip: float | None
    ) -> None:
        """Step on the gradients without their scale, of norm `gradient_clip` at most."""
        self._scaler.unscale_(optimizer)
        if gradient_clip is not None:
            nn.utils.clip_grad_norm_(parameters, gradient_clip)
        if not self.enabled:
            optimizer.step()
            return
        before = self._scaler.scale(self._one)
        self._scaler.step(optimizer)
        self._scaler.update()
        self._skipped += self._scaler.scale(self._one) < before

    def tensors(self) -> dict[str, Tensor]:
        """Return its state, by name; empty where it is not enabled."""
        if not self.enabled:
            return {}
        state = self._scaler.state_dict()
        return {
            "scaler.scale": torch.tensor(state["scale"], dtype=torch.float64),
            "scaler.growth_tracker": torch.tensor(state["_growth_tracker"]),
            "scaler.skipped_steps": self._skipped,
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from what `tensors` gave."""
        if not self.enabled:
            return
        scale = tensors["scaler.scale"].item()
        tracker = int(tensors["scaler.growth_tracker"])
        self._scaler.load_state_dict({**self._scaler.state_dict(), "scale": scale, "_growth_tracker": tracker})
        self._skipped.copy_(tensors["scaler.skipped_steps"])
