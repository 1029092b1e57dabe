"""The command line: parse, call, print. Results go to stdout, progress and errors to stderr."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tread_bench.core.errors import LARGEST, Passed, printable, shortened_middle
from tread_bench.core.signals import STATUS as INTERRUPTED
from tread_bench.core.signals import ctrl_c

FORGETS = (
    "What is removed or replaced"  # heading in a command's help: a misspelt option is never corrected to one of these
)


class Commands(TyperGroup):
    """The commands; for an unknown option they never suggest one that removes or replaces something.

    Interrupts and errors of the operating system bypass typer, which takes every broken pipe for that of stdout.
    """

    def invoke(self, ctx: Any) -> Any:
        ctrl_c.works = True
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, OSError) as error:
            raise Passed(error) from error
        except Exception as error:
            if possible := getattr(error, "possibilities", None):
                error.possibilities = sorted(set(possible) - _forgetting(error.ctx.command))  # type: ignore[attr-defined]
            _make_readable(error)
            raise

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().make_context(*arguments, **options)
        except Exception as error:
            _make_readable(error)
            raise


def _make_readable(error: Exception) -> None:
    """The message of a mistake on the command line: it quotes what was typed, safe to print and not too long."""
    if isinstance(message := getattr(error, "message", None), str):
        error.message = shortened_middle(printable(message))  # type: ignore[attr-defined]


def _forgetting(command: Any) -> set[str]:
    options = (one for one in command.params if getattr(one, "rich_help_panel", None) == FORGETS)
    return {name for option in options for name in option.opts}


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


def _number(name: str, about: str, least: int = 1) -> Any:
    """An option for an integer that fits 64 bits."""
    return typer.Option(name, min=least, max=LARGEST, help=about)


def _suites(incomplete: str) -> list[str]:
    """Names of shipped suites, for shell completion; where none begins so, the shell completes files."""
    from tread_bench.suite.load import shipped_suites

    return [name for name in shipped_suites() if name.startswith(incomplete)]


SuiteArgument = Annotated[
    str,
    typer.Argument(metavar="SUITE", help="a suite file, or the name of a shipped suite", autocompletion=_suites),
]
SetOption = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="override a key, such as training.iterations=100")
]
SeedsOption = Annotated[int | None, _number("--seeds", "number of seeds instead of the suite's")]
JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable output")]
ExportOption = Annotated[
    Path | None,
    typer.Option(
        "--export", metavar="DIR", help="also write tables (CSV, Markdown, LaTeX) and figures (SVG, PNG, PDF) here"
    ),
]

OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="replace a file that exists", rich_help_panel=FORGETS)
]


GuidanceOption = Annotated[
    str | None,
    typer.Option(
        "--guidance",
        metavar="RULE",
        help="none, cfg, sparse, tread, tread_released, autoguidance or path_drop; with settings as in a suite: "
        "'{name: sparse, strong: 0.5, weak: 0.9, interval: [0.1, 0.9]}'",
    ),
]


class Device(StrEnum):
    """Where to compute."""

    CPU = "cpu"
    CUDA = "cuda"


class RunDevice(StrEnum):
    """Where to compute, chosen by the program if need be."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Where(StrEnum):
    """Where cells run."""

    LOCAL = "local"
    RAY = "ray"
    SLURM = "slurm"


class Stored(StrEnum):
    """What is stored of an image's latent."""

    SAMPLE = "sample"
    MEAN_STD = "mean_std"
    MEAN_LOGVAR = "mean_logvar"


class StoredType(StrEnum):
    """Type of stored latents."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


class Protocol(StrEnum):
    """Published protocols of metrics."""

    ADM = "adm"
    TORCH_FIDELITY = "torch-fidelity"


class Listed(StrEnum):
    """What can be listed."""

    BACKBONES = "backbones"
    SUITES = "suites"
    DATASETS = "datasets"
    OBJECTIVES = "objectives"
    SAMPLERS = "samplers"
    SELECTORS = "selectors"
    METHODS = "methods"
    LOSSES = "losses"
    GUIDANCE = "guidance"
    METRICS = "metrics"
    EXTRACTORS = "extractors"
    KERNELS = "kernels"


DataRootOption = Annotated[
    Path | None,
    typer.Option(
        "--data-root", metavar="DIR", help="folder that $data_root in a suite's paths stands for; default: this one"
    ),
]
DeviceOption = Annotated[Device, typer.Option("--device", help="where to compute")]


@app.command()
def run(
    suite: SuiteArgument,
    overrides: SetOption = [],  # noqa: B006  (typer reads it once)
    seeds: SeedsOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="run folder; default: runs/<suite>")] = None,
    data_root: DataRootOption = None,
    rows: Annotated[
        list[str],
        typer.Option(
            "--rows", metavar="A,B", help="run these rows of the suite, and rows whose weights they read; default: all"
        ),
    ] = [],  # noqa: B006
    device: Annotated[
        RunDevice,
        typer.Option(
            "--device",
            help="auto: the device that the run folder was started on; in a new folder, or with --fresh, CUDA if there "
            "is one",
        ),
    ] = RunDevice.AUTO,
    executor: Annotated[
        Where, typer.Option("--executor", help="this machine, a Ray cluster, or Slurm; they share the run folder")
    ] = Where.LOCAL,
    workers: Annotated[int | None, _number("--workers", "cells trained at a time")] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="I/N",
            help="train the Ith of N equal parts of the cells, on a folder shared with the other parts; "
            "one last run without it measures speed and writes the comparison",
        ),
    ] = None,
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke", help="a few iterations of each cell, on random data where files are missing: does it work?"
        ),
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="run failed cells again, from their last checkpoint unless they diverged",
            rich_help_panel=FORGETS,
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="remove the results of this suite (or --rows) from the run folder, after naming them and asking",
            rich_help_panel=FORGETS,
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="let --fresh remove without asking", rich_help_panel=FORGETS)
    ] = False,
    accept_other_numerics: Annotated[
        bool,
        typer.Option(
            "--accept-other-numerics",
            help="continue after numerical choices or code of plug-ins changed; records say so",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train and measure every cell of a suite and write the comparison. The same command again resumes a run."""
    from tread_bench.cli.show.run import run_suite
    from tread_bench.runner.options import Options
    from tread_bench.runner.shards import Shard

    options = Options(
        device=device.value,
        rows=tuple(rows),
        executor=executor.value,
        workers=workers,
        shard=Shard.parse(shard) if shard else None,
        retry_failed=retry_failed,
        fresh=fresh,
        agreed=yes,
        accept_other_numerics=accept_other_numerics,
    )
    try:
        status = run_suite(suite, _with_seeds(overrides, seeds), out, smoke, options, as_json, data_root)
    except KeyboardInterrupt:
        print("interrupted; run the same command again to resume", file=sys.stderr)
        status = INTERRUPTED
    raise typer.Exit(status)


@app.command()
def plan(
    suite: SuiteArgument,
    overrides: SetOption = [],  # noqa: B006
    seeds: SeedsOption = None,
    detect: Annotated[
        float | None,
        typer.Option("--detect", metavar="FID", help="how many seeds find a difference this large, at 80 % power?"),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option("--spread", metavar="FID", help="for --detect: standard deviation of paired differences"),
    ] = None,
    run_with_spread: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RUN", help="for --detect: a finished run, or its export, that shows the spread"
        ),
    ] = None,
    step_time: Annotated[
        str | None,
        typer.Option(
            "--step-time",
            metavar="MS|RUN",
            help="add the hours that it takes; give the ms of a step of its first row, or a run that timed it",
        ),
    ] = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the cells, parameters, MACs, disk and ideal speed-ups of a suite, without training.

    Files that are there are checked by their headers and labels; what is missing is listed.
    """
    from tread_bench.cli.show.plan import show_plan
    from tread_bench.services.detect_request import DetectRequest

    request = DetectRequest.of(detect, spread, run_with_spread)
    show_plan(suite, _with_seeds(overrides, seeds), as_json, request, step_time, data_root)


@app.command()
def profile(
    backbone: Annotated[
        str, typer.Argument(metavar="BACKBONE", help="published name (DiT-S/2) or family with --set sizes")
    ],
    route: Annotated[list[str], typer.Option("--route", help="START:END@RATE; repeat for several")] = [],  # noqa: B006
    selector: Annotated[str, typer.Option("--selector", help="which tokens bypass")] = "random",
    image_size: Annotated[
        int | None,
        typer.Option(
            "--image-size", min=1, max=LARGEST, help="side of the backbone's input; default: as published, or 32"
        ),
    ] = None,
    channels: Annotated[
        int | None,
        _number("--channels", "channels of the backbone's input; default: as published, or 4"),
    ] = None,
    num_classes: Annotated[
        int | None, _number("--num-classes", "classes, 0 for no labels; default: as published, or 1000", least=0)
    ] = None,
    overrides: SetOption = [],  # noqa: B006
    guidance: GuidanceOption = None,
    train: Annotated[bool, typer.Option("--train", help="time training steps here, beside dense ones")] = False,
    batch: Annotated[int, _number("--batch", "images per timed step")] = 8,
    device: DeviceOption = Device.CPU,
    as_json: JsonOption = False,
) -> None:
    """Parameters and MACs of one backbone, dense and routed (MACs per image)."""
    from tread_bench.cli.show.profile import ProfileRequest, show_profile

    shape = {"image_size": image_size, "channels": channels, "num_classes": num_classes}
    given = {key: value for key, value in shape.items() if value is not None}
    show_profile(
        ProfileRequest(backbone, tuple(route), selector, given, tuple(overrides), guidance),
        (batch, device.value) if train else None,
        as_json,
    )


@app.command()
def sample(
    run_dir: Annotated[Path, typer.Argument(help="a run folder")],
    cell: Annotated[str, typer.Option("--cell", help="a cell's id, or a row's name (with --seed, if it has several)")],
    guidance: GuidanceOption = None,
    scale: Annotated[float | None, typer.Option("--scale", min=0, help="guidance scale; default: the cell's")] = None,
    sampler: Annotated[str | None, typer.Option("--sampler", help="see `list samplers`; default: the cell's")] = None,
    steps: Annotated[int | None, _number("--steps", "steps of the sampler; default: the cell's")] = None,
    num: Annotated[
        int, typer.Option("--num", min=1, max=100_000, help="number of images; with --npz they are never all in memory")
    ] = 40,
    seed: Annotated[int | None, _number("--seed", "seed of noise and masks; default: the cell's own", least=0)] = None,
    labels: Annotated[str | None, typer.Option("--labels", help="classes to sample in turn, such as 0,1,2")] = None,
    iteration: Annotated[int | None, _number("--iteration", "iteration of the weights; default: the last")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="folder; default: RUN_DIR/samples/...")] = None,
    npz: Annotated[
        Path | None,
        typer.Option(
            "--npz", metavar="FILE", help="one file in ADM's format instead: arr_0 (n, H, W, C), arr_1 classes"
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Generate images from the weights that a run has kept: a grid and single PNG files, or one .npz file."""
    from tread_bench.cli.show.sample import show_samples
    from tread_bench.services.sample import SampleRequest

    changes = {"guidance_scale": scale, "sampler": sampler, "steps": steps}
    request = SampleRequest(run_dir, cell, guidance, changes, num, seed, labels, iteration, out, npz, overwrite)
    show_samples(request, as_json)


@app.command()
def evaluate(
    samples: Annotated[
        str, typer.Argument(metavar="SAMPLES", help="an .npz file with arr_0, a folder of PNG files, or a run folder")
    ],
    reference: Annotated[
        str,
        typer.Option(
            "--reference",
            metavar="REF",
            help="what they are compared with: ADM's or EDM2's .npz, a folder of images, or data by name, suite or "
            "settings: '{name: image_folder, train: [...], ...}'",
        ),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics", metavar="A,B", help="see `list metrics`, with settings '{name: kid, ...}'; default: all"
        ),
    ] = None,
    networks: Annotated[
        list[str],
        typer.Option(
            "--network",
            metavar="NAME",
            help="feature network, see `list extractors`; with settings '{name: NAME, weights: FILE}'; repeat it for "
            "more; default: inception and dinov2",
        ),
    ] = [],  # noqa: B006
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights", metavar="DIR", help="folder of published weights; default: $TREAD_BENCH_WEIGHTS, see `doctor`"
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE.npy", help="the class of each sample, integers (n,)")
    ] = None,
    cell: Annotated[
        str | None, typer.Option("--cell", help="of a run folder: the cell's id, or a row's name, that is sampled")
    ] = None,
    num: Annotated[
        int | None, _number("--num", "of a run folder: images that are generated; default: as for the cell's metrics")
    ] = None,
    iteration: Annotated[
        int | None, _number("--iteration", "of a run folder: iteration of the weights; default: the last")
    ] = None,
    seed: Annotated[
        int | None,
        _number("--seed", "of a run folder: seed of the cell, if the row has several, and of noise", least=0),
    ] = None,
    protocol: Annotated[
        Protocol, typer.Option("--protocol", help="whose Inception score, precision and recall")
    ] = Protocol.ADM,
    batch: Annotated[int | None, _number("--batch", "images at a time; default: as many as pay on the device")] = None,
    device: Annotated[RunDevice, typer.Option("--device", help="auto: CUDA if there is one")] = RunDevice.AUTO,
    data_root: DataRootOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="folder of evaluation.json and the page; default: evaluations/...")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure FID, sFID, KID, Inception score, precision, recall and more of any set of images.

    The same command again resumes. Status 1: a metric or a network that was
    named has no figure.
    """
    from tread_bench.cli.show.evaluate import show_evaluation
    from tread_bench.services.evaluate import EvaluateRequest
    from tread_bench.services.run_samples import RunSamples

    try:
        request = EvaluateRequest(
            samples=samples,
            reference=reference,
            metrics=metrics,
            networks=networks,
            weights=weights,
            labels=labels,
            of_run=RunSamples(cell, num, iteration, seed),
            protocol=protocol.value,
            batch=batch,
            device=device.value,
            data_root=data_root,
            out=out,
        )
        status = show_evaluation(request, as_json)
    except KeyboardInterrupt:
        print("interrupted; run the same command again to resume", file=sys.stderr)
        status = INTERRUPTED
    raise typer.Exit(status)


@app.command()
def report(
    source: Annotated[
        Path, typer.Argument(metavar="RUN_DIR|FILE", help="a run folder, finished or not, or a file from `export`")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="folder to write into; default: the run folder, or for FILE.json a folder FILE here"
        ),
    ] = None,
    export_to: ExportOption = None,
) -> None:
    """Write results.csv, the figures and index.html of a run, or of an exported run, again."""
    from tread_bench.services.report import write_report

    typer.echo(write_report(source, out, export_to))


@app.command()
def compare(
    sources: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="two or more run folders, or files from `export`")
    ],
    out: Annotated[Path, typer.Option("--out", help="folder of the page and its figures")] = Path("compare"),
    export_to: ExportOption = None,
) -> None:
    """Compare the same rows in several runs: two machines, versions, data sets or groups of seeds.

    FIDs are compared where data, objective, metric protocol and iteration are
    the same, and rows are ranked together where their training is, too;
    otherwise they stand side by side, with what differs. Speed is compared
    on equal machines only.
    """
    from tread_bench.services.compare import compare_runs

    typer.echo(compare_runs(sources, out, export_to))


@app.command()
def export(
    run_dir: Annotated[Path, typer.Argument(help="a run folder, finished or not")],
    out: Annotated[
        Path | None, typer.Option("--out", help="file to write; default: the run folder's name with .json, here")
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Write the records of a run to one small file to send or publish; `report` draws it.

    The file contains no weights, images or logs. It names files without their folders, and no host or user.
    """
    from tread_bench.services.export import export_run

    typer.echo(export_run(run_dir, out, overwrite))


@app.command()
def status(
    run_dir: Annotated[Path, typer.Argument(help="a run folder, finished or not")],
    watch: Annotated[
        bool,
        typer.Option("--watch", help="keep watching until all records exist or Ctrl-C, even if no runner is active"),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is done, what runs where, how long it may take, and what failed or was lost."""
    from tread_bench.cli.show.status import show_status

    show_status(run_dir, watch, as_json)


@app.command()
def clean(
    run_dir: Annotated[Path, typer.Argument(help="a run folder, finished or not")],
    yes: Annotated[bool, typer.Option("--yes", help="remove without asking", rich_help_panel=FORGETS)] = False,
) -> None:
    """Remove checkpoints of finished cells and what interrupted writers left, after naming every file."""
    from tread_bench.cli.show.clean import clean_folder

    clean_folder(run_dir, yes)


@app.command()
def check(
    run_dir: Annotated[Path, typer.Argument(help="a finished run folder")],
    baseline: Annotated[Path, typer.Option("--baseline", help="JSON file of accepted figures")],
    accept: Annotated[
        bool, typer.Option("--accept", help="write the run's figures as the new baseline", rich_help_panel=FORGETS)
    ] = False,
    junit: Annotated[Path | None, typer.Option("--junit", help="also write JUnit XML")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="also write Markdown, for a job summary")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a run with accepted figures; status 1: something is worse, 3: something is inconclusive."""
    from tread_bench.cli.show.check import Outputs, check_run

    raise typer.Exit(check_run(run_dir, baseline, accept, Outputs(junit, markdown, as_json, overwrite)))


@app.command()
def regress(
    suite: SuiteArgument,
    against: Annotated[str, typer.Option("--against", metavar="GIT_REF", help="the version to compare with")],
    overrides: SetOption = [],  # noqa: B006
    data_root: DataRootOption = None,
    device: DeviceOption = Device.CPU,
    junit: Annotated[Path | None, typer.Option("--junit", help="also write JUnit XML")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="also write Markdown, for a job summary")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Time this version and another one in turn on this machine; status 1: slower, 3: inconclusive."""
    from tread_bench.cli.show.check import Outputs
    from tread_bench.cli.show.regress import regress as compare_versions

    outputs = Outputs(junit, markdown, as_json, overwrite)
    raise typer.Exit(compare_versions(suite, against, list(overrides), device.value, outputs, data_root))


@app.command()
def history(
    run_dirs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="run folders, in any order")],
    out: Annotated[Path, typer.Option("--out", help="folder of the page and its figures")] = Path("history"),
    export_to: ExportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find where figures changed over many runs, and plot them by commit.

    Runs are comparable if their configuration and conditions are the same.
    Speed, memory and quality need at least 8 such runs, counts need two.
    Status 3: a folder was left out, since it is not a run, is damaged, has
    no finished cell or was given twice; the others are shown.
    """
    from tread_bench.cli.show.history import show_history

    raise typer.Exit(show_history(run_dirs, out, export_to, as_json))


@app.command("list")
def list_(what: Annotated[Listed, typer.Argument(help="what to list")], as_json: JsonOption = False) -> None:
    """List what can be named in a suite."""
    from tread_bench.cli.show.listing import show_list

    show_list(what.value, as_json)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a suite file, for editors."""
    from tread_bench.suite.schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command()
def doctor(as_json: JsonOption = False) -> None:
    """Show what this machine has: device, kernels, versions, weights."""
    from tread_bench.cli.show.doctor import show_machine

    show_machine(as_json)


@app.command()
def features(
    suite: SuiteArgument,
    out: Annotated[Path, typer.Option("--out", help="safetensors file to write")],
    overrides: SetOption = [],  # noqa: B006
    iterations: Annotated[int, _number("--iterations", "training steps of the classifier")] = 1000,
    seed: Annotated[int, _number("--seed", "seed of the classifier", least=0)] = 0,
    max_width: Annotated[
        int | None, _number("--max-width", "most channels of a convolution, and features; default: 128")
    ] = None,
    data_root: DataRootOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Train a feature network for FID on a suite's data; name the file as metrics.extractor_weights."""
    from tread_bench.services.features import train_features

    typer.echo(json.dumps(train_features(suite, overrides, out, iterations, seed, max_width, data_root, overwrite)))


@app.command()
def encode(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="a suite, for its data, or data as a suite writes them: '{name: parquet, train: [...], ...}'",
        ),
    ],
    vae: Annotated[
        Path, typer.Option("--vae", help="folder of diffusers with an AutoencoderKL or AutoencoderDC; needs extra vae")
    ],
    out: Annotated[Path, typer.Option("--out", help="folder of the latents; the same command again resumes")],
    overrides: SetOption = [],  # noqa: B006
    data_root: DataRootOption = None,
    quantity: Annotated[
        Stored | None,
        typer.Option(
            "--quantity", help="what is stored: moments, from which training draws, or one sample; default: moments"
        ),
    ] = None,
    dtype: Annotated[StoredType, typer.Option("--dtype", help="of what is stored")] = StoredType.FLOAT32,
    seed: Annotated[int, _number("--seed", "seed of the noise of samples", least=0)] = 0,
    shard_samples: Annotated[
        int | None, _number("--shard-samples", "samples in a file; default: as many as fit 256 MiB")
    ] = None,
    device: Annotated[RunDevice, typer.Option("--device", help="auto: CUDA if there is one")] = RunDevice.AUTO,
) -> None:
    """Encode images to latents with an autoencoder; print the `data` of a suite that trains on them.

    Writes DIR/train and DIR/held_out: shards of latents, and a manifest that says what they are.
    """
    from tread_bench.data.encode.encode import EncodeRequest
    from tread_bench.services.encode import encode_images
    from tread_bench.suite.data import data_of

    request = EncodeRequest(
        data_of(source, overrides, data_root),
        vae,
        out,
        quantity.value if quantity else None,
        dtype.value,
        seed,
        device.value,
        shard_samples,
    )
    try:
        typer.echo(encode_images(request))
    except KeyboardInterrupt:
        print("interrupted; run the same command again to resume", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def _with_seeds(overrides: list[str], seeds: int | None) -> list[str]:
    return [*overrides, f"seeds={seeds}"] if seeds is not None else list(overrides)
