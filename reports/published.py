"""Published figures that a run may be read beside: another protocol, so beside and never among."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from reports.comparison import Row
from reports.numbers import number

PLACEMENT_BLOCKS = 12  # DiT-B/2, where TREAD's Figure 8 was measured
GAIN_MODELS = {"DiT": "DiT-B/2", "SiT": "SiT-B/2", "DiS": "Mamba", "DRWKV": "RWKV", "LightningDiT": "LightningDiT"}


class PublishedGain(NamedTuple):
    """FID of a model trained dense and with TREAD, from Table 2."""

    model: str
    dense: float
    tread: float

    @property
    def difference(self) -> float:
        return self.tread - self.dense


@cache
def _lines() -> list[dict[str, str]]:
    """Read off the tables and figures of Krause et al. (arXiv 2501.04765)."""
    text = files("reports").joinpath("published.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _value(table: str, model: str, method: str, routes: str | None = None) -> float | None:
    found = (
        line["value"]
        for line in _lines()
        if (line["table"], line["model"], line["method"]) == (table, model, method) and routes in (None, line["routes"])
    )
    return next(map(float, found), None)


def placement_difference(row: Row) -> float | None:
    """TREAD Figure 8: FID of that route minus dense, DiT-B/2 on ImageNet-256; None where it has no such route."""
    if (row.first.family, row.first.num_blocks) != ("DiT", PLACEMENT_BLOCKS) or not row.first.routes:
        return None
    return _value("TREAD Figure 8", "DiT-B/2", "tread", row.first.routes)


def placement_note() -> str:
    """Where the figures come from and why they do not compare."""
    figure, dense, tread = (
        number(_value(table, "DiT-B/2", method))
        for table, method in (("TREAD Figure 8", "dense"), ("TREAD Table 2", "dense"), ("TREAD Table 2", "tread"))
    )
    return (
        "Published: TREAD (Krause et al. 2025), Figure 8, read off the picture: DiT-B/2, ImageNet-256, another "
        f"protocol, no error bars, dense {figure}. After 400K iterations its Table 2 gives {dense} dense and {tread} "
        "with 2:8@0.5."
    )


def published_gain(row: Row) -> PublishedGain | None:
    """TREAD Table 2: that very model where it is listed, else the one of its family; None for other families."""
    listed = {line["model"] for line in _lines() if line["table"] == "TREAD Table 2"}
    model = row.group.backbone if row.group.backbone in listed else GAIN_MODELS.get(row.first.family, "")
    dense, tread = (_value("TREAD Table 2", model, method) for method in ("dense", "tread"))
    if dense is None or tread is None:
        return None
    return PublishedGain(model, dense, tread)


def gain_note() -> str:
    """Where the gains come from and why they do not compare."""
    return (
        "Published: TREAD (Krause et al. 2025), Table 2, another protocol: ImageNet-256, models of 33M to 675M "
        "parameters, 400K iterations of 256 images (LightningDiT 80K of 1,024), no guidance, one run each. Its signs "
        "may be read beside these, its sizes may not."
    )
