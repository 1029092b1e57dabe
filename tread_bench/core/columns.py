"""The columns of results.csv, in order, except for figures of metrics, which the metrics define."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    name: str
    unit: str
    definition: str
    whole: bool = False  # written as an integer


BEFORE_FIGURES = (
    Column("cell", "", "identity of the cell: hash of all that was requested of it"),
    Column("suite", "", "name of the suite"),
    Column("backbone", "", "published name, or family with its sizes"),
    Column("family", "", "family of the backbone"),
    Column("method", "", "dense, tread, …"),
    Column("routes", "", "START:END@RATE in block numbers, both ends inclusive; empty: dense"),
    Column("rate", "", "share of the tokens that bypasses each route"),
    Column("selector", "", "which tokens bypass"),
    Column("guidance", "", "rule of guidance while sampling, with its settings; none: without guidance"),
    Column("guidance_scale", "", "scale of guidance; 1: without guidance"),
    Column("seed", "", "seed of weights, data order, noise, timesteps and masks", True),
    Column("iteration", "optimiser steps", "iteration at which this line was evaluated; empty: never", True),
    Column("status", "", "done, failed or skipped"),
    Column("reason", "", "why a cell failed or was skipped"),
    Column("params", "", "parameters of the network, including frozen ones and method_params", True),
    Column("tokens_kept", "tokens", "processed inside each route, including prefix tokens; empty: dense"),
    Column("forward_macs", "MACs per image", "one forward pass with the routes; a multiply-add is one MAC", True),
    Column("train_step_macs", "MACs per image", "forward and backward pass of a training step with the routes", True),
    Column("gmacs", "10⁹ MACs per image", "forward_macs / 10⁹: what the DiT paper calls Gflops"),
    Column("gflops", "10⁹ FLOPs per image", "twice gmacs"),
    Column("images_per_s", "images/s", "training speed: the dense rate of the whole run times speedup"),
    Column("step_time_ms", "ms", "median of this row's own steps, timed alone, batches ready; compare rows by speedup"),
    Column("ideal_speedup", "", "dense over routed forward MACs: the speed-up without overhead"),
    Column("speedup", "", "dense over routed step time, median over pairs; for the dense row a control near 1"),
    Column("speedup_low", "", "lower end of its 95 % bootstrap interval"),
    Column("speedup_high", "", "upper end of its 95 % bootstrap interval"),
    Column(
        "train_seconds",
        "s",
        "time in training steps so far; other cells may run; includes compilation, if any",
    ),
    Column("peak_memory_mib", "MiB", "peak memory of training in its own process; see memory_kind"),
    Column("validation_loss", "", "dense loss on held-out images at fixed timesteps with fixed noise"),
)
SFID = Column("sfid", "", "the same on spatial features (Nash et al. 2021)")  # after fid; not measured yet
AFTER_FIGURES = (
    Column("num_samples", "images", "generated for this evaluation", True),
    Column("protocol", "", "fingerprint of how metrics were measured; only rows with the same one are comparable"),
    Column(
        "precision_mode",
        "",
        "matmul precision, autocast and, if used, compile, gradient_checkpointing, micro_batch",
    ),
    Column("kernels", "", "formulations of the costly operations"),
    Column("threads", "", "CPU threads of the cell", True),
    Column("device", "", "where it ran"),
    Column("row", "", "name of the row in the suite; all seeds of a row share it"),
    Column("reference", "", "dense cell of the same seed and architecture that this cell is compared with"),
    Column("attention_macs", "MACs per image", "part of forward_macs: the two products of attention", True),
    Column("scan_macs", "MACs per image", "part of forward_macs: multiply-adds of recurrences", True),
    Column("memory_kind", "", "allocator (CUDA, exact) or resident set (CPU, informative)"),
    Column("data", "", "data source"),
    Column("objective", "", "what the network learns; validation losses of two objectives are not comparable"),
    Column("method_params", "", "part of params: parameters that the method adds to the backbone", True),
    Column("auxiliary", "", "losses added to the method's own"),
    Column("auxiliary_params", "", "parameters that those losses add in training, not part of params", True),
    Column("schedule", "", "shares of the iterations: warm-up of the routes, and the start of dense training"),
    Column("mean_train_step_macs", "MACs per image", "mean of train_step_macs over the schedule", True),
    Column("judged_forward_macs", "MACs per image", "one forward pass as the network is evaluated", True),
    Column("skipped_steps", "optimiser steps", "skipped because float16 gradients overflowed", True),
    Column("sampling_macs", "MACs per image", "of one generated image: all calls of the sampler, both branches", True),
    Column("checkpoint", "", "row whose weights are evaluated, and their iteration; empty: the cell's own"),
    Column("smoke", "", "yes: cut down by --smoke, figures mean nothing; empty: a full run"),
    Column("loop_time_ms", "ms", "mean time of a step in the training loop, with batches made ahead, timed alone"),
    Column("data_wait_share", "", "share of loop_time_ms in which the device waited for a batch"),
    Column("data_wait_seconds", "s", "time in training in which the device waited for a batch; other cells may run"),
    Column("macs_of", "", "row to whose training MACs this one is trained; empty: a number of iterations of its own"),
    Column("training_macs", "MACs", "of the training up to this iteration, all images"),
    Column("paired_seconds", "s", "the same in time: iterations times step and wait for data, paired and timed alone"),
)
TAKEN = frozenset(column.name for column in (*BEFORE_FIGURES, SFID, *AFTER_FIGURES))  # not for metrics' figures
