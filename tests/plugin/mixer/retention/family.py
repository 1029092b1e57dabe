"""What is known of the mixer without torch."""

from tread_bench import Macs, MixerFamily


def state(size):
    """A matrix per head: as many keys as values."""
    return size.width * (size.width // size.heads)


def macs(size, tokens):
    """Four linear layers; per token and entry of the state the decay, k v^T and S^T q."""
    return Macs(linear=4 * size.width**2 * tokens, scan=3 * state(size) * tokens)


def rule(size):
    """Heads have equally many channels."""
    return f"hidden {size.width} must be a multiple of heads {size.heads}" if size.width % size.heads else ""


RETENTION = MixerFamily(
    name="retention",
    about="A matrix per head, which fades by the same factor at every token (Sun et al., arXiv 2307.08621).",
    builder="retention.network:Retention",
    state=state,
    params=lambda size: 4 * size.width**2,
    macs=macs,
    rule=rule,
    kernels=("recurrence",),
    gates_by_token=True,
)
