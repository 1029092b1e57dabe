"""`python -m benchmarks`, from a checkout: measures every row, prints the table, and writes it as JSON.

Exit status: 0, 1 where a row failed, 2 where the arguments are wrong, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.command import status_of
from tread_bench.core.errors import UserError
from tread_bench.core.names import unknown

if TYPE_CHECKING:
    from benchmarks.row import Row


def parser() -> argparse.ArgumentParser:
    description = (
        "Speed of this code against peers: paired, interleaved ratios with intervals; see docs/performance.md."
    )
    found = argparse.ArgumentParser(prog="python -m benchmarks", description=description)
    found.add_argument(
        "--only", nargs="+", metavar="NAME", default=["*"], help="rows by name, or by patterns: 'scan/*'"
    )
    found.add_argument("--list", action="store_true", help="print the rows and what they compare")
    found.add_argument("--threads", type=int, default=1, metavar="N", help="of torch and BLAS (default 1)")
    found.add_argument("--json", type=Path, metavar="FILE", help="default: runs/benchmarks-DATE.json")
    found.add_argument("--overwrite", action="store_true", help="replace the file of --json if it exists")
    found.add_argument(
        "--markdown", type=Path, metavar="FILE", help="a page: the table between its two marks is replaced"
    )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    options = parser().parse_args(arguments)
    return status_of(lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Raises UserError where an argument cannot be used."""
    # Check everything before the first import that takes seconds.
    if not 1 <= options.threads <= (os.cpu_count() or 1):
        raise UserError(f"--threads {options.threads}: this machine has 1 to {os.cpu_count()}")
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # torch reads it when it is imported

    from benchmarks.processes import register_rows
    from benchmarks.row import ROWS

    register_rows()
    chosen = [row for row in ROWS.values() if any(fnmatchcase(row.name, pattern) for pattern in options.only)]
    for pattern in options.only:
        if not any(fnmatchcase(name, pattern) for name in ROWS):
            raise UserError(f"--only: {unknown('row', pattern, ROWS)}")
    if options.list:
        for row in chosen:
            print(f"{row.name}: {row.claim}")
        return 0
    return measure(chosen, options)


def measure(chosen: Sequence[Row], options: argparse.Namespace) -> int:
    """Measure the rows, write the files, print the table."""
    import torch
    from threadpoolctl import threadpool_limits

    from benchmarks.conditions import conditions, load_average
    from benchmarks.processes import measured_apart
    from benchmarks.table import PAGE, Document, markdown, results_of, terminal_table
    from benchmarks.timing import Bench
    from benchmarks.yardstick import fastest_products
    from tread_bench.cli.console import stdout_console
    from tread_bench.core.stored.destinations import claim_file
    from tread_bench.core.stored.files import write_document

    # Where results go.
    path = options.json or Path("runs") / f"benchmarks-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    claim_file("--json", path, options.overwrite)
    if options.markdown:
        PAGE.text_of(options.markdown)

    # Measure row by row.
    torch.set_num_threads(options.threads)
    threadpool_limits(options.threads, user_api="blas")
    about = conditions(options.threads)
    clock = Bench(options.threads).clock
    results = []
    for result in results_of(chosen, options.threads, lambda: fastest_products(clock), measured_apart):
        results.append(result)
        print(f"{len(results)}/{len(chosen)} {result.name}: {result.status}, {result.seconds:.0f} s", file=sys.stderr)
    about["load_average_after"] = load_average()

    # The table.
    document = Document(conditions=about, results=results)
    write_document(path, document, options.overwrite)
    if options.markdown:
        PAGE.replace(options.markdown, markdown(document))
    stdout_console().print(terminal_table(results))
    print(f"written to {path}", file=sys.stderr)
    return int(any(result.status == "failed" for result in results))


if __name__ == "__main__":
    sys.exit(main())
