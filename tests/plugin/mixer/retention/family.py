"""What is known of the mixer without torch."""

from tread_bench import MixerFamily


def rule(size):
    """Heads have equally many channels."""
    return f"hidden {size.width} must be a multiple of heads {size.heads}" if size.width % size.heads else ""


RETENTION = MixerFamily(
    name="retention",
    about="A matrix per head, which fades by the same factor at every token (Sun et al., arXiv 2307.08621).",
    builder="retention.network:Retention",
    rule=rule,
    kernels=("recurrence",),
    gates_by_token=True,
)
