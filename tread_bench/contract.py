"""The checks that the authors of plug-ins run, of all rooms.

from tread_bench.contract import check_backbone

def test_the_contract_holds():
    assert check_backbone(FAMILY, FAMILY.spec(depth=4, hidden=32, image_size=8)) == []
"""

from __future__ import annotations

from tread_bench.core.describe.violations import Violation, run_check
from tread_bench.data.contract import DATA_CHECKS, DataSubject, check_data
from tread_bench.diffusion.contract.guidance import GUIDANCE_CHECKS, GuidanceSubject, check_guidance
from tread_bench.diffusion.contract.objectives import OBJECTIVE_CHECKS, ObjectiveSubject, check_objective
from tread_bench.diffusion.contract.samplers import SAMPLER_CHECKS, SamplerSubject, check_sampler
from tread_bench.measure.contract.extractors import EXTRACTOR_CHECKS, ExtractorSubject, check_extractor
from tread_bench.measure.contract.metrics import METRIC_CHECKS, MetricSubject, check_metric
from tread_bench.model.contract.checks import CHECKS, Check
from tread_bench.model.contract.losses import LOSS_CHECKS, LossSubject, check_loss
from tread_bench.model.contract.methods import METHOD_CHECKS, MethodSubject, check_method
from tread_bench.model.contract.run import check_backbone
from tread_bench.model.contract.selectors import SELECTOR_CHECKS, SelectorSubject, check_selector
from tread_bench.model.contract.subject import Subject
from tread_bench.model.contract.wrapped import WRAPPED_CHECKS, check_wrapped

__all__ = [
    "CHECKS",
    "DATA_CHECKS",
    "EXTRACTOR_CHECKS",
    "GUIDANCE_CHECKS",
    "LOSS_CHECKS",
    "METHOD_CHECKS",
    "METRIC_CHECKS",
    "OBJECTIVE_CHECKS",
    "SAMPLER_CHECKS",
    "SELECTOR_CHECKS",
    "WRAPPED_CHECKS",
    "Check",
    "DataSubject",
    "ExtractorSubject",
    "GuidanceSubject",
    "LossSubject",
    "MethodSubject",
    "MetricSubject",
    "ObjectiveSubject",
    "SamplerSubject",
    "SelectorSubject",
    "Subject",
    "Violation",
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
    "check_wrapped",
    "run_check",
]
