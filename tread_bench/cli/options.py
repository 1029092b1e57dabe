"""Options that several commands have, each with one meaning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from tread_bench.core.processes import INTERRUPTED
from tread_bench.services.choices import Device

# Heading in a command's help: a misspelt option is never corrected to one of these.
FORGETS = "What is removed or replaced"


def option(name: str, about: str, **settings: Any) -> Any:
    """Return an option with its help."""
    return typer.Option(name, help=about, **settings)


def number(name: str, about: str, least: int = 1) -> Any:
    """Return an option for an integer."""
    return option(name, about, min=least)


def forgets(name: str, about: str) -> Any:
    """Return an option that lets something be removed or replaced."""
    return option(name, about, rich_help_panel=FORGETS)


def _suites(incomplete: str) -> list[str]:
    """Names of shipped suites, for shell completion; where none begins so, the shell completes files."""
    from tread_bench.suite.load import shipped_suites

    return [name for name in shipped_suites() if name.startswith(incomplete)]


SuiteArgument = Annotated[
    str,
    typer.Argument(metavar="SUITE", help="a suite file, or the name of a shipped suite", autocompletion=_suites),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="a run folder, finished or not")]

SetOption = Annotated[
    list[str], option("--set", "override a key, such as training.iterations=9 or seeds=5", metavar="KEY=VALUE")
]
CellSeedOption = Annotated[int | None, number("--cell-seed", "seed of the cell, if its row has several", least=0)]
NoiseSeedOption = Annotated[int | None, number("--noise-seed", "seed of noise and masks; default: the cell's", least=0)]
IterationOption = Annotated[int | None, number("--iteration", "iteration of the weights; default: the last")]
JsonOption = Annotated[bool, option("--json", "machine-readable output")]
OverwriteOption = Annotated[bool, forgets("--overwrite", "replace a file that exists")]
GuidanceOption = Annotated[
    str | None,
    option(
        "--guidance",
        "none, cfg, sparse, tread, tread_released, autoguidance or path_drop; with settings as in a suite: "
        "'{name: sparse, strong: 0.5, weak: 0.9, interval: [0.1, 0.9]}'",
        metavar="RULE",
    ),
]
DataRootOption = Annotated[
    Path | None,
    option("--data-root", "folder that $data_root in a suite's paths stands for; default: this one", metavar="DIR"),
]
DeviceOption = Annotated[Device, option("--device", "auto: CUDA if there is one")]


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C ends a command that the same command again resumes, which is what it says."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted; run the same command again to resume", err=True)
        raise typer.Exit(INTERRUPTED) from None
