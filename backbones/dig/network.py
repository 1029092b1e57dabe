"""DiG (Zhu et al., "DiG: Scalable and Efficient Diffusion Models with Gated Linear Attention", arXiv 2405.18428).

DiT's block with a mixer in place of attention, a gated MLP, and a depthwise convolution on the grid behind it. After
every block the sequence is reversed, and after every second one the grid is transposed. Here the stream stays in row
order: mixers see the tokens along the block's path, and the convolution's kernel is turned in place of the grid.
Parameter names match the authors' release.

Two controls say what a scan is worth: the same frame without a mixer (`mixer: identity`), and a hybrid with softmax
attention in every fourth block (`attention_every: 4`), which replaces the scan of columns from the end.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from timm.layers import PatchEmbed
from torch import Tensor, nn

from tread_bench.backbones.dig.family import KERNEL, DiGSpec
from tread_bench.backbones.dit.network import FinalLayer, LabelEmbedder, TimeEmbedder, modulate
from tread_bench.backbones.mixers.base import Mixer
from tread_bench.backbones.paths import Order, order_along, steps_along
from tread_bench.core.describe.plugins import named
from tread_bench.model.backbone import Backbone, TokenState
from tread_bench.model.ops.patching import sincos_positions, unpatchify
from tread_bench.model.ops.routing import gather_tokens, scatter_tokens

VALUES = "values"  # stream of mixers that share values: those of the first block that a token passed, or zeros


def dig_paths(grid: tuple[int, int]) -> Tensor:
    """Return the four paths (4, N) in the order of the blocks: rows, rows reversed, columns, columns reversed."""
    raster = torch.arange(grid[0] * grid[1]).reshape(grid)
    rows, columns = raster.flatten(), raster.T.flatten()
    return torch.stack([rows, rows.flip(0), columns, columns.flip(0)])


class SwiGLU(nn.Module):
    """Computes down(silu(gate) value), where [gate, value] are one projection; without biases."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, 2 * hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x_BND: Tensor) -> Tensor:
        gate, value = self.gate_proj(x_BND).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * value)


class Block(nn.Module):
    """Mixer and MLP, each shifted, scaled and gated by the conditioning (adaLN-Zero), then the convolution."""

    def __init__(self, spec: DiGSpec, block: int, kernels: Mapping[str, str]) -> None:
        super().__init__()
        width = spec.hidden
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attn: Mixer = named(spec.mixer_at(block).builder)(spec.mixer_size(block), kernels)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.mlp = SwiGLU(width, spec.mlp_hidden)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.dw_conv = nn.Conv2d(width, width, KERNEL, padding=KERNEL // 2, groups=width)
        self.shares_values = spec.mixer_at(block).shares_values
        self.is_reversed = block % 2 == 1
        self.is_transposed = block // 2 % 2 == 1

    def forward(self, state: TokenState, order: Order, steps_BK: Tensor | None) -> TokenState:
        # Mix along the path.
        x_BKD = state.streams["x"]
        assert state.c is not None, "DiG is conditioned on the time"
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(state.c).chunk(6, dim=1)
        along_path, back = order
        asked = gather_tokens(modulate(self.norm1(x_BKD), shift1, scale1), along_path)
        if self.shares_values:
            mixed, state = self.mix_sharing(asked, state, order, steps_BK)
        else:
            mixed = self.attn(asked, steps_BK)
        x_BKD = x_BKD + gate1.unsqueeze(1) * gather_tokens(mixed, back)

        # MLP and convolution.
        x_BKD = x_BKD + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x_BKD), shift2, scale2))
        return state.with_streams(x=self.convolve(x_BKD, state))

    def mix_sharing(
        self, asked_BKD: Tensor, state: TokenState, order: Order, steps_BK: Tensor | None
    ) -> tuple[Tensor, TokenState]:
        """Mix with the values of the first block that each token passed; tokens without any get them here."""
        along_path, back = order
        mixed, values = self.attn.mix_sharing(asked_BKD, steps_BK, gather_tokens(state.streams[VALUES], along_path))
        return mixed, state.with_streams(**{VALUES: gather_tokens(values, back)})

    def convolve(self, x_BKD: Tensor, state: TokenState) -> Tensor:
        """Convolve on the grid, with zeros in place of neighbours that are absent.

        Tokens that are kept are written onto the whole grid. Looking their neighbours up instead, as Q-shift does,
        takes 4 times as long, forward and backward, on a CPU with half of 256 tokens.
        """
        weight = self.dw_conv.weight.mT if self.is_transposed else self.dw_conv.weight
        weight = weight.flip(2, 3) if self.is_reversed else weight
        x_BND = x_BKD
        if state.ids is not None:
            x_BND = scatter_tokens(x_BKD.new_zeros(len(x_BKD), state.num_tokens, x_BKD.shape[2]), x_BKD, state.ids)
        x_BDRC = x_BND.mT.unflatten(2, state.grid)
        y_BDRC = F.conv2d(x_BDRC, weight, self.dw_conv.bias, padding=KERNEL // 2, groups=len(weight))
        y_BND = y_BDRC.flatten(2).mT.contiguous()
        return y_BND if state.ids is None else gather_tokens(y_BND, state.ids)


class DiG(Backbone):
    """DiG, whose paths over the whole grid are restricted to the kept tokens by their ranks on the path."""

    spec: DiGSpec
    head_modules = ("final_layer",)
    ranks: Tensor  # (4, N): rank of each token on each path

    def __init__(self, spec: DiGSpec, kernels: Mapping[str, str]) -> None:
        super().__init__()
        self.x_embedder = PatchEmbed(spec.image_size, spec.patch, spec.channels, spec.hidden)
        self.t_embedder = TimeEmbedder(spec.hidden)
        self.y_embedder = LabelEmbedder(spec.num_classes, spec.hidden) if spec.num_classes else None
        self.pos_embed = nn.Parameter(torch.empty(1, spec.num_tokens, spec.hidden), requires_grad=False)
        self.blocks = nn.ModuleList(Block(spec, block, kernels) for block in range(spec.depth))
        self.final_layer = FinalLayer(spec)  # type: ignore[arg-type]  # reads sizes that both specs have
        self.register_buffer("ranks", dig_paths(spec.grid).argsort(dim=1), persistent=False)

    def embed(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        c = self.t_embedder(t)
        if self.y_embedder is not None:
            c = c + self.y_embedder(y)
        tokens = (self.x_embedder(x) + self.pos_embed).contiguous()  # token by token, as a route leaves them
        streams = {"x": tokens}
        if self.spec.mixer_family.shares_values:
            streams[VALUES] = torch.zeros_like(tokens)
        return TokenState(streams, grid=self.spec.grid, c=c, residual=("x",))

    def run_block(self, block: int, state: TokenState) -> TokenState:
        path = block % len(self.ranks)
        steps = steps_along(self.ranks, path, state) if self.spec.decay_skipped else None
        return self.blocks[block](state, order_along(self.ranks, path, state), steps)

    def head(self, state: TokenState) -> Tensor:
        return unpatchify(self.final_layer(state.streams["x"], state.c), state.grid, self.spec.patch)

    def init_module(self, name: str, module: nn.Module) -> None:
        """Initialise as released: as DiT, mixers by their own rules, and convolutions as the identity."""
        owner, is_mixer, part = name.partition(".attn")
        if module is self:
            self.pos_embed.copy_(sincos_positions(self.spec.hidden, self.spec.grid))
        elif is_mixer:
            mixer: Mixer = self.get_submodule(f"{owner}.attn")  # type: ignore[assignment]
            mixer.init_part(part.removeprefix("."), module)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        elif name.endswith("dw_conv"):
            assert isinstance(module, nn.Conv2d) and module.bias is not None
            nn.init.dirac_(module.weight, groups=module.groups)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear | nn.Conv2d):
            if "adaLN_modulation" in name or name == "final_layer.linear":
                nn.init.zeros_(module.weight)
            elif name.startswith("t_embedder"):
                nn.init.normal_(module.weight, std=0.02)
            else:
                nn.init.xavier_uniform_(module.weight.flatten(1))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
