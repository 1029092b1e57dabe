"""What a cell and a suite are made of: frozen, validated models. No torch, no files.

`Cell` is one fully resolved training; `Suite` is what a YAML file says once overrides are applied. `plan.py` turns the
second into many of the first; `suite_file.py` reads YAML and gives every mistake its place.
"""

from __future__ import annotations

from tread_bench.config.backbones import BackboneChoice, Routes
from tread_bench.config.compute import Compute, Kernels, Timing
from tread_bench.config.data import DataChoice, DigitsData, ParquetData
from tread_bench.config.methods import DenseMethod, MethodChoice, TreadMethod
from tread_bench.config.metrics import EXTRACTORS, Metrics
from tread_bench.config.objectives import FlowObjective
from tread_bench.config.sampling import Sampling
from tread_bench.config.suite import MAX_SEEDS, NAME, ROW_NAME, Cell, Seeds, Suite
from tread_bench.config.training import Training

__all__ = [
    "EXTRACTORS",
    "MAX_SEEDS",
    "NAME",
    "ROW_NAME",
    "BackboneChoice",
    "Cell",
    "Compute",
    "DataChoice",
    "DenseMethod",
    "DigitsData",
    "FlowObjective",
    "Kernels",
    "MethodChoice",
    "Metrics",
    "ParquetData",
    "Routes",
    "Sampling",
    "Seeds",
    "Suite",
    "Timing",
    "Training",
    "TreadMethod",
]
