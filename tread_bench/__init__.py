"""tread-bench: decide whether, where and how to route tokens in a diffusion backbone.

Importing this package is light: what a name needs is imported when the name is asked for, torch with the first network.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tread_bench.api import Results, evaluate, load, run
    from tread_bench.core.describe.branches import Branch
    from tread_bench.core.describe.data_sources import DataFamily, DataOptions, Decoding, always_comparable, no_files
    from tread_bench.core.describe.extractors import ExtractorFamily, ExtractorOptions, Published, find_extractor
    from tread_bench.core.describe.families import BackboneSpec, Cost, Family, Macs, mirrored_skips, no_skips
    from tread_bench.core.describe.guidance import GuidanceFamily, GuidanceOptions
    from tread_bench.core.describe.losses import LossFamily, LossOptions
    from tread_bench.core.describe.methods import Evaluated, MethodFamily, MethodOptions, Tokens
    from tread_bench.core.describe.metrics import Estimate, Figure, MetricFamily, MetricOptions, Needs
    from tread_bench.core.describe.objectives import ObjectiveFamily, ObjectiveOptions
    from tread_bench.core.describe.routes import Route
    from tread_bench.core.describe.samplers import SamplerFamily
    from tread_bench.core.describe.selectors import SelectorFamily, TokenOrder
    from tread_bench.core.numbers import draws
    from tread_bench.core.problems import Problem
    from tread_bench.core.stored.evaluations import SetEvaluation
    from tread_bench.data.contract import check_data
    from tread_bench.data.source import DataSource, ImageSet
    from tread_bench.diffusion.contract.guidance import check_guidance
    from tread_bench.diffusion.contract.objectives import check_objective
    from tread_bench.diffusion.contract.samplers import check_sampler
    from tread_bench.measure.contract.extractors import check_extractor
    from tread_bench.measure.contract.metrics import check_metric
    from tread_bench.measure.quality.features import (
        Extractor,
        Features,
        device_effect,
        images_to_features,
        open_extractor,
    )
    from tread_bench.measure.quality.fid.metric import features_to_fid, statistics_to_fid
    from tread_bench.measure.quality.fid_infinity.metric import features_to_fid_infinity
    from tread_bench.measure.quality.inception_score.metric import logits_to_inception_score
    from tread_bench.measure.quality.kid.metric import features_to_kid
    from tread_bench.measure.quality.per_class_fid.metric import features_to_per_class_fid
    from tread_bench.measure.quality.precision_recall.metric import features_to_precision_recall
    from tread_bench.measure.quality.samples import Samples
    from tread_bench.measure.quality.statistics import FeatureStatistics, features_to_statistics
    from tread_bench.measure.sets.reference import ReferenceSet, open_reference
    from tread_bench.measure.sets.samples import SampleSet, open_samples
    from tread_bench.measure.sets.write import write_samples_npz
    from tread_bench.model.backbone import Backbone, TokenState, come_back, create_backbone, leave, run_blocks
    from tread_bench.model.contract.checks import check_backbone
    from tread_bench.model.contract.losses import check_loss
    from tread_bench.model.contract.methods import check_method
    from tread_bench.model.contract.selectors import check_selector
    from tread_bench.model.losses.auxiliary import Auxiliary, Images
    from tread_bench.model.methods.base import BatchRange, Method, first_state, run_range, walk
    from tread_bench.model.ops.conv import causal_conv
    from tread_bench.model.ops.patching import sincos_positions, sinusoids, unpatchify
    from tread_bench.model.ops.qshift import q_shift
    from tread_bench.model.ops.routing import gather_tokens, scatter_tokens
    from tread_bench.model.ops.scan import selective_scan
    from tread_bench.model.ops.wkv import bi_wkv
    from tread_bench.model.prediction import Prediction
    from tread_bench.model.wrapped import RoutedNetwork

__version__ = "0.1.0"

_NAMES_BY_MODULE = {
    "api": ("Results", "evaluate", "load", "run"),
    "core.describe.data_sources": ("DataFamily", "DataOptions", "Decoding", "always_comparable", "no_files"),
    "core.stored.evaluations": ("SetEvaluation",),
    "core.describe.extractors": ("ExtractorFamily", "ExtractorOptions", "Published", "find_extractor"),
    "core.describe.families": (
        "BackboneSpec",
        "Cost",
        "Family",
        "Macs",
        "mirrored_skips",
        "no_skips",
    ),
    "core.describe.branches": ("Branch",),
    "core.describe.guidance": ("GuidanceFamily", "GuidanceOptions"),
    "core.describe.losses": ("LossFamily", "LossOptions"),
    "core.describe.methods": ("Evaluated", "MethodFamily", "MethodOptions", "Tokens"),
    "core.describe.metrics": ("Estimate", "Figure", "MetricFamily", "MetricOptions", "Needs"),
    "core.describe.objectives": ("ObjectiveFamily", "ObjectiveOptions"),
    "core.problems": ("Problem",),
    "core.describe.routes": ("Route",),
    "core.describe.samplers": ("SamplerFamily",),
    "core.describe.selectors": ("SelectorFamily", "TokenOrder"),
    "data.contract": ("check_data",),
    "data.source": ("DataSource", "ImageSet"),
    "diffusion.contract.guidance": ("check_guidance",),
    "diffusion.contract.objectives": ("check_objective",),
    "diffusion.contract.samplers": ("check_sampler",),
    "measure.contract.extractors": ("check_extractor",),
    "measure.contract.metrics": ("check_metric",),
    "measure.quality.features": ("Extractor", "Features", "device_effect", "images_to_features", "open_extractor"),
    "measure.quality.samples": ("Samples",),
    "measure.quality.fid.metric": ("features_to_fid", "statistics_to_fid"),
    "measure.quality.fid_infinity.metric": ("features_to_fid_infinity",),
    "measure.quality.inception_score.metric": ("logits_to_inception_score",),
    "measure.quality.kid.metric": ("features_to_kid",),
    "measure.quality.per_class_fid.metric": ("features_to_per_class_fid",),
    "measure.quality.precision_recall.metric": ("features_to_precision_recall",),
    "measure.quality.statistics": ("FeatureStatistics", "features_to_statistics"),
    "measure.sets.reference": ("ReferenceSet", "open_reference"),
    "measure.sets.samples": ("SampleSet", "open_samples"),
    "measure.sets.write": ("write_samples_npz",),
    "model.backbone": ("Backbone", "TokenState", "come_back", "create_backbone", "leave", "run_blocks"),
    "model.contract.losses": ("check_loss",),
    "model.contract.methods": ("check_method",),
    "model.contract.checks": ("check_backbone",),
    "model.contract.selectors": ("check_selector",),
    "model.losses.auxiliary": ("Auxiliary", "Images"),
    "model.methods.base": ("BatchRange", "Method", "first_state", "run_range", "walk"),
    "model.ops.conv": ("causal_conv",),
    "model.ops.patching": ("sincos_positions", "sinusoids", "unpatchify"),
    "model.ops.qshift": ("q_shift",),
    "model.ops.routing": ("gather_tokens", "scatter_tokens"),
    "model.ops.scan": ("selective_scan",),
    "model.ops.wkv": ("bi_wkv",),
    "model.prediction": ("Prediction",),
    "model.wrapped": ("RoutedNetwork",),
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _NAMES_BY_MODULE.items() for name in names}
__all__ = [
    "Auxiliary",
    "Backbone",
    "BackboneSpec",
    "BatchRange",
    "Branch",
    "Cost",
    "DataFamily",
    "DataOptions",
    "DataSource",
    "Decoding",
    "Estimate",
    "Evaluated",
    "Extractor",
    "ExtractorFamily",
    "ExtractorOptions",
    "Family",
    "FeatureStatistics",
    "Features",
    "Figure",
    "GuidanceFamily",
    "GuidanceOptions",
    "ImageSet",
    "Images",
    "LossFamily",
    "LossOptions",
    "Macs",
    "Method",
    "MethodFamily",
    "MethodOptions",
    "MetricFamily",
    "MetricOptions",
    "Needs",
    "ObjectiveFamily",
    "ObjectiveOptions",
    "Prediction",
    "Problem",
    "Published",
    "ReferenceSet",
    "Results",
    "Route",
    "RoutedNetwork",
    "SampleSet",
    "SamplerFamily",
    "Samples",
    "SelectorFamily",
    "SetEvaluation",
    "TokenOrder",
    "TokenState",
    "Tokens",
    "__version__",
    "always_comparable",
    "bi_wkv",
    "causal_conv",
    "check_backbone",
    "check_data",
    "check_extractor",
    "check_guidance",
    "check_loss",
    "check_method",
    "check_metric",
    "check_objective",
    "check_sampler",
    "check_selector",
    "come_back",
    "create_backbone",
    "device_effect",
    "draws",
    "evaluate",
    "features_to_fid",
    "features_to_fid_infinity",
    "features_to_kid",
    "features_to_per_class_fid",
    "features_to_precision_recall",
    "features_to_statistics",
    "find_extractor",
    "first_state",
    "gather_tokens",
    "images_to_features",
    "leave",
    "load",
    "logits_to_inception_score",
    "mirrored_skips",
    "no_files",
    "no_skips",
    "open_extractor",
    "open_reference",
    "open_samples",
    "q_shift",
    "run",
    "run_blocks",
    "run_range",
    "scatter_tokens",
    "selective_scan",
    "sincos_positions",
    "sinusoids",
    "statistics_to_fid",
    "unpatchify",
    "walk",
    "write_samples_npz",
]


def __getattr__(name: str) -> object:
    if name == "draws":  # a module
        return import_module(f"{__name__}.core.numbers.draws")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
