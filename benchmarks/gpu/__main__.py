"""`python -m benchmarks.gpu`, from a checkout, on a machine with a GPU: measures it; or publishes what others sent in.

Exit status: 0, 1 where a part failed, 2 where there is no GPU or an argument is wrong, 3 where the check against the
baseline was inconclusive, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.command import status_of
from tread_bench.core.errors import UserError

COMMAND = "python -m benchmarks.gpu"


def parser() -> argparse.ArgumentParser:
    description = "Kernels, regression suite and step speed on a GPU, as one table and one JSON document; see "
    found = argparse.ArgumentParser(prog=COMMAND, description=f"{description}docs/performance.md.")
    found.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of result.json, result.md and the runs; default: runs/gpu-DATE"
    )
    found.add_argument(
        "--publish",
        nargs=2,
        type=Path,
        metavar=("FOLDER", "PAGE"),
        help="measure nothing: replace the table between the two marks of a page by the results in a folder",
    )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    options = parser().parse_args(arguments)
    if options.publish:
        return status_of(lambda: publish(*options.publish))
    return status_of(lambda: measure(options.out or Path("runs") / f"gpu-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"))


def publish(folder: Path, page: Path) -> int:
    """Make a page's table. Raises UserError; the page is then as it was."""
    from benchmarks.gpu.document import read_results
    from benchmarks.gpu.table import PAGE
    from benchmarks.gpu.table import page as table_of

    PAGE.text_of(page)
    PAGE.replace(page, table_of(read_results(folder)))
    return 0


def measure(out: Path) -> int:
    """Run every part, and write what it found. Raises UserError where nothing can be measured."""
    from benchmarks.gpu.device import missing_device

    if reason := missing_device():
        raise UserError(reason)

    from benchmarks.conditions import gpu_conditions
    from benchmarks.gpu.document import GpuDocument, Machine
    from benchmarks.gpu.parts import Acceptance, results_of
    from benchmarks.gpu.table import markdown
    from tread_bench.core.stored.destinations import claim_folders
    from tread_bench.core.stored.files import write_atomically, write_document

    # Every part. This process touches the GPU only afterwards: the runs measure alone.
    claim_folders(COMMAND, {"--out": out})
    acceptance = Acceptance(out)
    parts = [*results_of(acceptance)]
    machine = Machine.model_validate(gpu_conditions())

    # What was found.
    document = GpuDocument(conditions=machine, parts=parts, runs=acceptance.runs)
    write_document(out / "result.json", document)
    table = markdown(document)
    write_atomically(out / "result.md", table)
    print(table)
    print(f"written to {out / 'result.json'} and {out / 'result.md'}", file=sys.stderr)
    ended = {part.status for part in parts}
    return 1 if "failed" in ended else 3 if "inconclusive" in ended else 0


if __name__ == "__main__":
    sys.exit(main())
