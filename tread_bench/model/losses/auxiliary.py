"""The interface of an auxiliary loss, which is added to the training loss of any method."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from tread_bench.model.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Images:
    """Images that a prediction may be compared with, each (B, C, H, W)."""

    clean: Tensor
    noised: Tensor
    denoised: Tensor  # the network's estimate of `clean`; gradients flow through it
    pictures: Tensor | None = None  # the images beside latents, (B, 3, H', W'); None: `clean` are images

    @property
    def seen(self) -> Tensor:
        """What a network of images sees of the samples."""
        return self.clean if self.pictures is None else self.pictures


class Auxiliary(nn.Module):
    """A loss on a prediction. It owns its extra parameters; none of them is needed for sampling."""

    block: int | None = None  # after which it reads the tokens
    file_sha256: str = ""  # hash of the weights that it reads

    def forward(self, prediction: Prediction, images: Images) -> Tensor:
        """Return the weighted loss, a scalar."""
        raise NotImplementedError
