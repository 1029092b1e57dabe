"""The command `doctor`."""

from __future__ import annotations

from tread_bench.cli.options import JsonOption


def doctor(as_json: JsonOption = False) -> None:
    """Show what this machine has: device, kernels, versions, weights."""
    from tread_bench.cli.show.doctor import show_machine

    show_machine(as_json)
