"""A result as Markdown: what was timed, under which conditions, and what became of each part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.gpu.document import GpuDocument, SpeedRun
from benchmarks.page import Place
from tread_bench.core.numbers.statistics import median_interval
from tread_bench.core.stored.records import CostFigures, Record, TimingFigures
from tread_bench.reports.tables import Entry, Table, as_markdown, markdown_text
from tread_bench.reports.text.numbers import DASH, names, number

PAGE = Place("python -m benchmarks.gpu")
NOBODY = "Nobody has sent in a whole result of `tox -e gpu` yet."
HEADERS = (
    *("row", "GPUs", "images", "compiled", "ms per step", "loop, ms", "host, %"),
    *("images/s", "per GPU", "scaling", "denoiser alone, images/s"),
    *("MFU, %", "of MACs", "data wait, %", "peak memory, MiB", "failed"),
)
Found = tuple[float, float, float]  # a figure and its 95 % interval


def page(documents: Sequence[GpuDocument]) -> str:
    """All results, for the page that publishes them."""
    return "\n".join(map(markdown, documents)).strip() or NOBODY


def markdown(document: GpuDocument) -> str:
    """One result."""
    about = document.conditions
    speed = Table("speed", f"{about.gpus[0]}, {about.date[:10]}", HEADERS, [*speed_rows(document.runs)])
    parts = Table("parts", "Parts", ("part", "ended", "seconds", "reason"), [*part_rows(document)])
    return f"{as_markdown(speed)}\n{markdown_text(conditions(document))}\n\n{as_markdown(parts)}"


def conditions(document: GpuDocument) -> str:
    """Of the machine, and of the steps."""
    # The machine.
    about = document.conditions
    commit = (about.commit or "unknown")[:10] + (" with changes" if about.changed else "")
    sentences = [
        f"{len(about.gpus)} × {about.gpus[0]} with {number(about.gpu_memory_mib, 0)} MiB, driver "
        f"{about.driver or 'unknown'}, CUDA {about.cuda or 'unknown'}; {about.cpu}, {about.cpus} CPUs; commit "
        f"{commit}; torch {about.versions.get('torch', 'unknown')}."
    ]

    # Its steps, which all runs compute in the same way.
    for run in document.runs[:1]:
        chosen = run.run.plan.numerics
        kernels = names(f"{kind} {name}" for kind, name in chosen.kernels.items())
        sentences.append(f"Autocast {chosen.autocast}; kernels {kernels}; {tokens(document.runs)}.")

    # How fast the GPU is at best.
    rates = [timing.product_macs_per_s for _, _, timing in timed(document.runs) if timing.product_macs_per_s]
    if rates:
        low, high = (number(2e-12 * rate, 0) for rate in (min(rates), max(rates)))
        sentences.append(f"A large matrix product in the type of a step reached {low} to {high} TFLOP/s.")
    return " ".join(sentences)


def tokens(runs: Sequence[SpeedRun]) -> str:
    """Tokens of an image, which differ where somebody has changed the suite."""
    return names(f"{count} tokens" for count in sorted({cost.dense_tokens for _, cost, _ in timed(runs)})) or "no step"


def timed(runs: Sequence[SpeedRun]) -> Iterator[tuple[Record, CostFigures, TimingFigures]]:
    """The records with figures."""
    for run in runs:
        for record in run.run.records:
            if record.cost and record.timing:
                yield record, record.cost, record.timing


def speed_rows(runs: Sequence[SpeedRun]) -> Iterator[list[Entry]]:
    """Each row of each run; one that failed keeps its reason."""
    alone = {}
    for run in runs:
        for record, _, timing in timed([run]):
            if run.processes == 1:
                alone[record.row, timing.batch, str(run.run.plan.numerics.compile)] = images_per_s(timing)
    for run in runs:
        for record in run.run.records:
            yield [Entry(record.row), Entry(str(run.processes)), *speed_entries(record, run, alone)]


def compiled(timing: TimingFigures, run: SpeedRun) -> str:
    """How the steps of a row were compiled, with the reason where it was not as requested."""
    requested = run.run.plan.numerics.compile
    return timing.compiled_instead or ("blocks" if requested is True else requested or "no")


def speed_entries(record: Record, run: SpeedRun, alone: Mapping[tuple[str, int, str], Found]) -> list[Entry]:
    """What was measured of a row; `alone`, images per second of one process, by row, images and compilation."""
    timing, cost, processes = record.timing, record.cost, run.processes
    if timing is None or cost is None:
        return [Entry(DASH)] * (len(HEADERS) - 3) + [Entry(record.reason)]
    rate = images_per_s(timing)
    way, images = compiled(timing, run), timing.batch // processes
    one = alone.get((record.row, images, str(run.run.plan.numerics.compile)))
    host = timing.host_share
    return [
        Entry(str(images)),
        Entry(way),
        Entry(
            number(timing.step_time_ms, 1),
            f"{number(timing.step_time_low_ms, 1)} to {number(timing.step_time_high_ms, 1)}",
        ),
        Entry(DASH if timing.loop_time_ms is None else number(timing.loop_time_ms, 1)),
        Entry(DASH if host is None else number(100 * host, 0)),
        rate_entry(rate),
        Entry(number(rate[0] / processes, 0)),
        Entry(number(rate[0] / (processes * one[0])) if one and processes > 1 else DASH),
        rate_entry(denoiser_alone(timing)) if cost.auxiliary_params else Entry(DASH),
        Entry(number(share_of_product(cost, timing, processes), 1)),
        of_macs(cost, timing) if record.routes else Entry(DASH),
        Entry(DASH if timing.data_wait_share is None else number(100 * timing.data_wait_share, 1)),
        memory_entry(timing),
        Entry(""),
    ]


def images_per_s(timing: TimingFigures) -> Found:
    """Of the whole step, by the batch of all processes."""
    low, high = (1e3 * timing.batch / step_ms for step_ms in (timing.step_time_high_ms, timing.step_time_low_ms))
    return timing.images_per_s, low, high


def denoiser_alone(timing: TimingFigures) -> Found:
    """The same of the steps without auxiliary losses that the row was timed in turn with."""
    median, low, high = median_interval(timing.reference_step_times_ms)
    return 1e3 * timing.batch / median, 1e3 * timing.batch / high, 1e3 * timing.batch / low


def share_of_product(cost: CostFigures, timing: TimingFigures, processes: int) -> float | None:
    """MFU in per cent: multiply-adds per second of a step over those of a large matrix product on as many GPUs."""
    if timing.product_macs_per_s is None:
        return None
    step = cost.train_step_macs * timing.images_per_s
    return 100 * step / (processes * timing.product_macs_per_s)


def of_macs(cost: CostFigures, timing: TimingFigures) -> Entry:
    """The measured speed-up over the one that the MACs promise."""
    found = (timing.speedup, timing.speedup_low, timing.speedup_high)
    value, low, high = (one / cost.ideal_speedup for one in found)
    return Entry(number(value), f"{number(low)} to {number(high)}")


def memory_entry(timing: TimingFigures) -> Entry:
    """The allocator's peak of a training step, of the first process."""
    return Entry(
        number(timing.peak_memory_mib, 0), "" if timing.memory_kind == "allocator" else timing.memory_kind or ""
    )


def rate_entry(found: Found) -> Entry:
    value, low, high = found
    return Entry(number(value, 0), f"{number(low, 0)} to {number(high, 0)}")


def part_rows(document: GpuDocument) -> Iterator[list[Entry]]:
    for part in document.parts:
        yield [Entry(part.name), Entry(part.status), Entry(number(part.seconds, 0)), Entry(part.reason)]
