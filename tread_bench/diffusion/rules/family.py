"""The guidance rules of this package: which two branches are combined, and at which times."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from tread_bench.core.config.base import Float, Share
from tread_bench.core.describe.guidance import Blocks, Branch, GuidanceFamily, GuidanceOptions, Moment
from tread_bench.core.describe.routes import Route


class Unguided(GuidanceOptions):
    """No guidance: the network's own prediction, with one network call per evaluation."""

    name: Literal["none"] = "none"

    @property
    def branches(self) -> tuple[Branch, Branch | None]:
        return Branch("strong"), None


class Guidance(GuidanceOptions):
    """Settings that all our rules share."""

    interval: tuple[Float, Float] | None = Field(
        None, description="[low, high]: guided at low < t <= high, the objective's times; empty: always"
    )

    @property
    def guided_times(self) -> tuple[float, float] | None:
        return self.interval

    @model_validator(mode="after")
    def _interval_ascends(self) -> Guidance:
        if self.interval and not 0 <= self.interval[0] < self.interval[1]:
            raise ValueError(f"interval {list(self.interval)}: must be [low, high] with 0 <= low < high")
        return self


class ClassifierFree(Guidance):
    """Classifier-free guidance: the weak branch has no label (Ho and Salimans 2022)."""

    name: Literal["cfg"] = "cfg"

    @property
    def branches(self) -> tuple[Branch, Branch]:
        return Branch("strong"), Branch("weak", label=False)


class Routed(Guidance):
    """Both branches are routed, the weak one more strongly."""

    blocks: Blocks = Field((), description="START:END that tokens bypass; empty: those of the cell's routes")
    strong: Share = Field(0.5, description="share of the tokens that bypasses in the strong branch")
    weak: Share = Field(0.9, description="share of the tokens that bypasses in the weak branch")

    @property
    def routed_blocks(self) -> tuple[Route, ...]:
        return self.blocks

    @property
    def rates(self) -> tuple[float, float]:
        return self.strong, self.weak

    @model_validator(mode="after")
    def _weak_is_weaker(self) -> Routed:
        if self.strong > self.weak:
            raise ValueError(f"strong {self.strong:g} must not exceed weak {self.weak:g}, the rates of bypassed tokens")
        return self

    def _branch(self, name: str, rate: float) -> Branch:
        return Branch(name, routes=tuple(Route(route.start, route.end, rate) for route in self.blocks))


class SparseGuidance(Routed):
    """Sparse Guidance: the strong branch has a low rate, the weak one a high rate (Krause et al. 2026)."""

    name: Literal["sparse"] = "sparse"
    decay: Literal["none", "cosine"] = Field("none", description="cosine: both rates fall to 0 over the steps")
    label_weak: bool = Field(True, description="false: the weak branch has no label (CFG+SG)")
    snapshot: Moment | None = Field(
        None, description="weights of the weak branch: iteration or share of the source's training; empty: the same"
    )

    @property
    def weak_snapshot(self) -> int | float | None:
        return self.snapshot

    @model_validator(mode="after")
    def _weak_is_weaker(self) -> SparseGuidance:
        if self.strong >= self.weak:
            raise ValueError(f"strong {self.strong:g} must be less than weak {self.weak:g}, rates of bypassed tokens")
        return self

    @property
    def branches(self) -> tuple[Branch, Branch]:
        strong, weak = (
            replace(self._branch(name, rate), decays=self.decay == "cosine")
            for name, rate in (("strong", self.strong), ("weak", self.weak))
        )
        return strong, replace(weak, label=self.label_weak, other_weights=self.snapshot is not None)


class TreadGuidance(Routed):
    """TREAD's routed guidance: a routed prediction guided by a more strongly routed one, both with the label."""

    name: Literal["tread"] = "tread"

    @property
    def branches(self) -> tuple[Branch, Branch]:
        return self._branch("strong", self.strong), self._branch("weak", self.weak)


class ReleasedTreadGuidance(Routed):
    """TREAD's routed guidance as in the released code: neither branch has the label."""

    name: Literal["tread_released"] = "tread_released"

    @property
    def branches(self) -> tuple[Branch, Branch]:
        strong, weak = self._branch("strong", self.strong), self._branch("weak", self.weak)
        return replace(strong, label=False), replace(weak, label=False)


class AutoGuidance(Guidance):
    """AutoGuidance: the weak branch is an earlier or a smaller model (Karras et al. 2024)."""

    name: Literal["autoguidance"] = "autoguidance"
    row: str | None = Field(None, description="row whose network is the weak one; empty: the evaluated network's own")
    snapshot: Moment | None = Field(None, description="iteration or share of its training; empty: its end")

    @property
    def weak_row(self) -> str | None:
        return self.row

    @property
    def weak_snapshot(self) -> int | float | None:
        return self.snapshot

    @model_validator(mode="after")
    def _is_another(self) -> AutoGuidance:
        if self.row is None and self.snapshot is None:
            raise ValueError("autoguidance needs a weak model: give snapshot (an earlier iteration), row, or both")
        return self

    @property
    def branches(self) -> tuple[Branch, Branch]:
        return Branch("strong"), Branch("weak", other_weights=True)


class PathDrop(Guidance):
    """Path-drop guidance: the weak branch leaves out the middle blocks (SPRINT, Park et al. 2025)."""

    name: Literal["path_drop"] = "path_drop"
    blocks: Blocks = Field(
        (), description="START:END left out; empty: those of the cell's routes, or what the method itself drops"
    )
    label_weak: bool = Field(False, description="true: the weak branch is given the label")

    @property
    def routed_blocks(self) -> tuple[Route, ...]:
        return self.blocks

    @property
    def branches(self) -> tuple[Branch, Branch]:
        return Branch("strong"), Branch("weak", label=self.label_weak, routes=self.blocks, drops_path=True)


NONE = GuidanceFamily(name="none", options=Unguided)
CFG = GuidanceFamily(name="cfg", options=ClassifierFree)
SPARSE = GuidanceFamily(name="sparse", options=SparseGuidance)
TREAD = GuidanceFamily(name="tread", options=TreadGuidance)
TREAD_RELEASED = GuidanceFamily(name="tread_released", options=ReleasedTreadGuidance)
AUTOGUIDANCE = GuidanceFamily(name="autoguidance", options=AutoGuidance)
PATH_DROP = GuidanceFamily(name="path_drop", options=PathDrop)
