"""The command `ci regress`."""

from __future__ import annotations

from typing import Annotated

import typer

from tread_bench.cli.options import (
    DataRootOption,
    DeviceOption,
    JsonOption,
    JunitOption,
    MarkdownOption,
    OverwriteOption,
    SetOption,
    SuiteArgument,
)


def regress(
    suite: SuiteArgument,
    against: Annotated[str, typer.Option("--against", metavar="GIT_REF", help="the version to compare with")],
    overrides: SetOption = [],  # noqa: B006
    data_root: DataRootOption = None,
    device: DeviceOption = "auto",
    junit: JunitOption = None,
    markdown: MarkdownOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Time this version and another one in turn on this machine; status 1: slower, 3: inconclusive."""
    from tread_bench.cell.numerics import usable_device
    from tread_bench.cli.show.check import print_findings
    from tread_bench.services.check import Outputs
    from tread_bench.services.regress import regress as compare_versions

    outputs = Outputs(junit, markdown, overwrite)
    checked = compare_versions(suite, against, list(overrides), usable_device(device), outputs, data_root)
    print_findings(checked, as_json)
    raise typer.Exit(checked.status)
