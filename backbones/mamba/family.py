"""Mamba's mixer as a plug-in: closed-form cost, without torch."""

from __future__ import annotations

from tread_bench.backbones.mamba.cost import EXPAND, STATE, mixer_macs, mixer_params
from tread_bench.core.describe.mixers import MixerFamily

MAMBA = MixerFamily(
    name="mamba",
    about="Mamba: a selective scan with a decay per channel and state (Gu and Dao, arXiv 2312.00752)",
    builder="tread_bench.backbones.mamba.mixer:mamba_mixer",
    state=lambda size: size.directions * EXPAND * size.width * STATE,
    params=lambda size: mixer_params(size.width, size.directions),
    macs=lambda size, tokens: mixer_macs(size.width, tokens, size.directions),
    kernels=("scan",),
    goes_both_ways=True,
)
