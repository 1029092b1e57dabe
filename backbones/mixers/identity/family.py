"""No mixer, without torch."""

from __future__ import annotations

from tread_bench.core.describe.mixers import MixerFamily

IDENTITY = MixerFamily(
    name="identity",
    about="no mixer: returns its tokens, as in IdentityFormer (Yu et al., arXiv 2210.13452)",
    builder="tread_bench.backbones.mixers.identity.network:Identity",
)
