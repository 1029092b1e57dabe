"""The columns of results.csv, in order, except for figures of metrics, which the metrics define."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    name: str
    unit: str
    definition: str
    whole: bool = False  # written as an integer


BEFORE_FIGURES = (
    Column("cell", "", "hash of all that was requested of the cell"),
    Column("suite", "", "name of the suite"),
    Column("backbone", "", "published name, or family with its sizes"),
    Column("family", "", "family of the backbone"),
    Column("method", "", "dense, tread, …"),
    Column("routes", "", "START:END@RATE in block numbers, both ends inclusive; empty: dense"),
    Column("rate", "", "share of tokens that bypasses"),
    Column("selector", "", "which tokens bypass"),
    Column("guidance", "", "rule of guidance, with its settings; none: without"),
    Column("guidance_scale", "", "scale of guidance; 1: without guidance"),
    Column("seed", "", "seed of weights, data order, noise, timesteps and masks", True),
    Column("iteration", "optimiser steps", "at which this line was evaluated; empty: never", True),
    Column("status", "", "done, failed or skipped"),
    Column("reason", "", "why a cell failed or was skipped"),
    Column("params", "", "of the network, including frozen ones and method_params", True),
    Column("tokens_kept", "tokens", "inside each route, including prefix tokens; empty: dense"),
    Column("forward_macs", "MACs per image", "one forward pass with the routes; a multiply-add is one MAC", True),
    Column("train_step_macs", "MACs per image", "forward and backward pass with the routes", True),
    Column("gmacs", "10⁹ MACs per image", "forward_macs / 10⁹: what the DiT paper calls Gflops"),
    Column("gflops", "10⁹ FLOPs per image", "twice gmacs"),
    Column("images_per_s", "images/s", "of training: the dense rate of the run times speedup"),
    Column("step_time_ms", "ms", "median of own steps, timed alone, batches ready; compare rows by speedup"),
    Column("ideal_speedup", "", "forward MACs of the dense network over the row's"),
    Column("speedup", "", "dense over the row's step time, median over pairs; of dense a control near 1"),
    Column("speedup_low", "", "lower end of its 95 % bootstrap interval"),
    Column("speedup_high", "", "upper end of its 95 % bootstrap interval"),
    Column("train_seconds", "s", "in training steps so far, with compilation; other cells may run"),
    Column("peak_memory_mib", "MiB", "of training in its own process; see memory_kind"),
    Column("validation_loss", "", "dense loss on held-out images at fixed timesteps with fixed noise"),
)
AFTER_FIGURES = (
    Column("num_samples", "images", "generated for this evaluation", True),
    Column("protocol", "", "fingerprint of how metrics were measured; only rows with the same one are comparable"),
    Column("precision_mode", "", "matmul precision, autocast, and other compute options"),
    Column("kernels", "", "formulations of the costly operations"),
    Column("threads", "", "CPU threads of the cell", True),
    Column("device", "", "where it ran"),
    Column("row", "", "name of the row in the suite"),
    Column("reference", "", "dense cell of the same seed and architecture that this cell is compared with"),
    Column("attention_macs", "MACs per image", "part of forward_macs: the two products of attention", True),
    Column("scan_macs", "MACs per image", "part of forward_macs: multiply-adds of recurrences", True),
    Column("memory_kind", "", "allocator (CUDA, exact) or resident set (CPU, informative)"),
    Column("data", "", "data source"),
    Column("objective", "", "what the network learns; validation losses of two are not comparable"),
    Column("method_params", "", "part of params: parameters that the method adds to the backbone", True),
    Column("auxiliary", "", "losses added to the method's own"),
    Column("auxiliary_params", "", "of those losses, not part of params", True),
    Column("schedule", "", "shares of warm-up of the routes, and start of dense training"),
    Column("mean_train_step_macs", "MACs per image", "mean of train_step_macs over the schedule", True),
    Column("evaluated_forward_macs", "MACs per image", "one forward pass as the network is evaluated", True),
    Column("skipped_steps", "optimiser steps", "skipped because float16 gradients overflowed", True),
    Column("sampling_macs", "MACs per image", "of one generated image, over all calls and branches", True),
    Column("checkpoint", "", "row whose weights are evaluated, and their iteration; empty: the cell's own"),
    Column("smoke", "", "yes: cut down by --smoke, figures mean nothing; empty: a full run"),
    Column("loop_time_ms", "ms", "mean step in the training loop, batches made ahead, timed alone"),
    Column("data_wait_share", "", "share of loop_time_ms in which the device waited for a batch"),
    Column("data_wait_seconds", "s", "in which the device waited for a batch; other cells may run"),
    Column("macs_of", "", "row to whose training MACs this one is trained; empty: iterations are its own"),
    Column("training_macs", "MACs", "MACs of the training up to this iteration, over all images"),
    Column("paired_seconds", "s", "iterations x (step time + wait for data), timed alone"),
    Column("equal_time_iteration", "optimiser steps", "at which it has trained as long as row macs_of", True),
    Column("equal_time_low", "optimiser steps", "the same at speedup_low; empty: not timed in pairs with that row"),
    Column("equal_time_high", "optimiser steps", "the same at speedup_high"),
    Column("fid_at_equal_time", "", "FID evaluated at equal_time_iteration"),
    Column("num_blocks", "blocks", "of the backbone: what routes index", True),
    Column("dense_tokens", "tokens", "of one image, with prefix tokens, where none is routed", True),
    Column("batch", "images", "per optimiser step, over all processes", True),
    Column("optimizer", "", "adamw, or muon for the matrices of blocks and adamw for all else"),
    Column("learning_rate", "", "before warm-up, decay and schedule apply"),
    Column("decay", "", "how the learning rate falls to zero; empty: it stays"),
    Column("lora_rank", "", "of the adapters; empty: all weights are trained", True),
    Column("start", "", "row whose weights the training starts from, and their iteration; empty: drawn weights"),
    Column("recovered_at", "optimiser steps", "from here on validation_loss is at most that at 0; empty: none", True),
    Column("tuned", "", "best of N, or edge of N, which is untuned; empty: learning_rate was given"),
    Column("num_routes", "", "routes of the row; 0: dense", True),
    Column("route_start", "block", "first block of the first route", True),
    Column("route_end", "block", "last block of the first route", True),
    Column("route_rate", "", "share of tokens that bypasses the first route"),
    Column("guidance_rule", "", "name of the rule of guidance, without its settings"),
    Column("sampler", "", "what generates the images"),
    Column("sampling_steps", "", "steps of the sampler", True),
    Column("hardware", "", "name of the CPU or GPU"),
    Column("paired_seed", "", "seed of the suite, in any seed group; rows are paired by it", True),
    Column("training_iterations", "optimiser steps", "of the whole training", True),
    Column("dense_step_ms", "ms", "median dense step in turn with which the row was timed"),
)
_NAMES = {column.name for column in (*BEFORE_FIGURES, *AFTER_FIGURES)}


def is_taken(name: str) -> bool:
    """Return whether a figure of a metric cannot have this name, since a column of results.csv has it."""
    return name in _NAMES
