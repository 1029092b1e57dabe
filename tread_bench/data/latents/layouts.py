"""Layouts of latents on disk, without torch: which facts a layout fixes, which it usually has, and what reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tread_bench.data.latents.manifest import StoredCaptions, manifest_path

SD_VAE_SCALE = 0.18215
LIGHTNINGDIT_STATISTICS = "latents_stats.pt"
FEATURES, LABELS = "_features", "_labels"  # in names of fast-DiT's folders
_SAMPLES = {"quantity": "sample", "already_scaled": False}
_SCALED_SAMPLES = {"quantity": "sample", "already_scaled": True, "flips": "none"}
_MEAN_STD = {"quantity": "mean_std", "already_scaled": False, "flips": "none"}
_MEAN_LOGVAR = {"quantity": "mean_logvar", "already_scaled": False}
_STORES = "tread_bench.data.latents"

# EDM2's encoder of ImageNet-512: raw means and standard deviations per channel, made 0 and 0.5.
_EDM2_MEAN = (5.81, 3.25, 0.12, -2.15)
_EDM2_STD = (4.17, 4.62, 3.71, 3.28)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What is known of a layout.

    Args:
        name: its name in a suite.
        fixed: facts that its reader defines; a suite or a manifest that says otherwise is refused.
        usual: facts that hold unless a suite or a manifest says otherwise.
        reader: "module:attribute" of a callable (options, path) -> `Unit`.
        suffixes: of the files that a folder is searched for; none: the folder itself is the unit.
        is_named: every sample has a file of its own, by whose name its image is found.
        has_captions: features of captions can be stored with the samples.
        empty_text_beside: name of the file beside its folders that has the features of the empty caption.
    """

    name: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)
    reader: str
    suffixes: tuple[str, ...] = ()
    is_named: bool = False
    has_captions: bool = False
    empty_text_beside: str = ""

    def usual_in(self, entries: Sequence[str]) -> dict[str, Any]:
        """Return the usual facts where the training files are; files among them are beside the first."""
        found = dict(self.usual)
        for key in ("scale", "shift"):
            if isinstance(found.get(key), str):  # the path of an array
                found[key] = str(manifest_path(entries[0]).parent / found[key])
        return found


_OWN = Layout(
    name="safetensors",  # this project
    usual={"scale": SD_VAE_SCALE},
    reader=f"{_STORES}.safetensors_store:SafetensorsFile",
    suffixes=(".safetensors",),
    has_captions=True,
)
_REPA = Layout(
    name="repa",  # sihyun-yu/REPA, dataset.py and preprocessing/dataset_tools.py
    fixed=_MEAN_STD,
    usual={"scale": SD_VAE_SCALE},
    reader=f"{_STORES}.file_stores:ListedFiles",
    is_named=True,
)
LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        _OWN,
        Layout(
            name="tread-wds",  # CompVis/tread, train.py
            fixed=_SCALED_SAMPLES,
            usual={"scale": SD_VAE_SCALE},
            reader=f"{_STORES}.tar_store:TarShard",
            suffixes=(".tar",),
        ),
        _REPA,
        replace(
            _REPA,
            name="edm2",  # NVlabs/edm2, training/encoders.py and dataset.py
            usual={
                "encoder_input": (0.0, 1.0),
                "scale": tuple(0.5 / std for std in _EDM2_STD),
                "shift": _EDM2_MEAN,
            },
        ),
        replace(
            _REPA,
            name="sr-dit",  # SpeedrunDiT, train.py
            fixed={**_SAMPLES, "flips": "none"},
            usual={"scale": 0.3099},
        ),
        replace(
            _OWN,
            name="lightningdit",  # hustvl/LightningDiT, datasets/img_latent_dataset.py
            fixed={**_SAMPLES, "flips": "pair"},
            usual={"scale": LIGHTNINGDIT_STATISTICS, "shift": LIGHTNINGDIT_STATISTICS},
            has_captions=False,
        ),
        Layout(
            name="fast-dit",  # chuanyangjin/fast-DiT, extract_features.py
            fixed=_SCALED_SAMPLES,
            usual={"scale": SD_VAE_SCALE},
            reader=f"{_STORES}.file_stores:NumberedFiles",
        ),
        Layout(
            name="maskdit-lmdb",  # Anima-Lab/MaskDiT, extract_latent.py
            fixed=_MEAN_LOGVAR,
            usual={"scale": SD_VAE_SCALE},
            reader=f"{_STORES}.lmdb_store:Database",
            suffixes=("data.mdb",),
        ),
        Layout(
            name="u-vit-coco",  # baofff/U-ViT, scripts/extract_mscoco_feature.py and datasets.py
            fixed={**_MEAN_LOGVAR, "flips": "none"},
            usual={"scale": 0.23010, "num_classes": 0, "captions": StoredCaptions()},
            reader=f"{_STORES}.file_stores:CocoFiles",
            has_captions=True,
            empty_text_beside="empty_context.npy",
        ),
    )
}


def alike(layout: Layout) -> list[str]:
    """Return the names of layouts of the same files, for which other facts hold."""
    return [one.name for one in LAYOUTS.values() if one.reader == layout.reader and one.fixed != layout.fixed]
