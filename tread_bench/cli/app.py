"""The command line: parse, call, print. Results go to stdout, progress and errors to stderr."""

from __future__ import annotations

import signal
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tread_bench.cli.commands.check import check
from tread_bench.cli.commands.clean import clean
from tread_bench.cli.commands.doctor import doctor
from tread_bench.cli.commands.encode import encode
from tread_bench.cli.commands.evaluate import evaluate
from tread_bench.cli.commands.features import features
from tread_bench.cli.commands.listing import list_
from tread_bench.cli.commands.plan import plan
from tread_bench.cli.commands.profile import profile
from tread_bench.cli.commands.report import report
from tread_bench.cli.commands.run import run
from tread_bench.cli.commands.sample import sample
from tread_bench.cli.commands.status import status
from tread_bench.cli.options import FORGETS
from tread_bench.core.errors import Passed


class Commands(TyperGroup):
    """The commands; for an unknown option they never suggest one that removes or replaces something.

    Interrupts and errors of the operating system bypass typer, which takes every broken pipe for that of stdout.
    """

    def invoke(self, ctx: Any) -> Any:
        before = signal.getsignal(signal.SIGINT)
        if before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, OSError) as error:
            raise Passed(error) from error
        except Exception as error:
            _withhold(error)
            raise
        finally:
            signal.signal(signal.SIGINT, before)


def _withhold(error: Any) -> None:
    """Suggest nothing that removes or replaces something in place of an unknown option."""
    if getattr(error, "possibilities", None):
        params = error.ctx.command.params
        forgetting = [one.opts for one in params if getattr(one, "rich_help_panel", None) == FORGETS]
        error.possibilities = sorted(set(error.possibilities).difference(*forgetting))


app = typer.Typer(
    cls=Commands,
    name="tread-bench",
    help="Decide whether, where and how to route tokens in a diffusion backbone.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from tread_bench import __version__

        typer.echo(f"tread-bench {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """Options of the program itself."""


COMMANDS = (run, plan, profile, sample, evaluate, report, status, clean, list_, doctor, features, encode)
ci = typer.Typer(cls=Commands, name="ci", help="Guard figures against accepted ones.")
for command in COMMANDS:
    app.command(command.__name__.rstrip("_"))(command)
ci.command("check")(check)
app.add_typer(ci, no_args_is_help=True)
