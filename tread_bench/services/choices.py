"""What the command line and Python may choose from. Imports nothing, since `--help` reads it."""

from __future__ import annotations

from typing import Literal

Device = Literal["auto", "cpu", "cuda"]
Executor = Literal["local", "ray", "slurm"]
