"""What a cell and a suite are made of: frozen, validated models. No torch, no files.

`Cell` is one fully resolved training; `Suite` is what a YAML file says once overrides are applied. `plan.py` turns the
second into many of the first; `suite_file.py` reads YAML and gives every mistake its place.
"""

from __future__ import annotations

from tread_bench.core.config.auxiliary import Auxiliary, MaeLoss, RepaLoss
from tread_bench.core.config.backbones import BackboneChoice, Routes
from tread_bench.core.config.base import MAX_NUMBER
from tread_bench.core.config.compute import Compute, Kernels, Limits, StepOptions, Timing
from tread_bench.core.config.data import (
    DataChoice,
    DigitsData,
    LatentsData,
    ParquetData,
    RandomLatentsData,
    picture_shape,
)
from tread_bench.core.config.evaluate import Evaluate
from tread_bench.core.config.files import Place, files_of
from tread_bench.core.config.guidance import GuidanceChoice, GuidanceRule, iteration_at
from tread_bench.core.config.methods import (
    DenseMethod,
    DropMethod,
    LayerSkipMethod,
    MaskMethod,
    MethodChoice,
    ModMethod,
    SprintMethod,
    TreadMethod,
)
from tread_bench.core.config.metrics import EXTRACTORS, Metrics
from tread_bench.core.config.objectives import EdmObjective, FlowObjective, ObjectiveChoice
from tread_bench.core.config.sampling import Churn, Sampling
from tread_bench.core.config.suite import MAX_SEEDS, NAME, ROW_NAME, Cell, Seeds, Suite
from tread_bench.core.config.training import RoutingSchedule, Training

__all__ = [
    "EXTRACTORS",
    "MAX_NUMBER",
    "MAX_SEEDS",
    "NAME",
    "ROW_NAME",
    "Auxiliary",
    "BackboneChoice",
    "Cell",
    "Churn",
    "Compute",
    "DataChoice",
    "DenseMethod",
    "DigitsData",
    "DropMethod",
    "EdmObjective",
    "Evaluate",
    "FlowObjective",
    "GuidanceChoice",
    "GuidanceRule",
    "Kernels",
    "LatentsData",
    "LayerSkipMethod",
    "Limits",
    "MaeLoss",
    "MaskMethod",
    "MethodChoice",
    "Metrics",
    "ModMethod",
    "ObjectiveChoice",
    "ParquetData",
    "Place",
    "RandomLatentsData",
    "RepaLoss",
    "Routes",
    "RoutingSchedule",
    "Sampling",
    "Seeds",
    "SprintMethod",
    "StepOptions",
    "Suite",
    "Timing",
    "Training",
    "TreadMethod",
    "files_of",
    "iteration_at",
    "picture_shape",
]
