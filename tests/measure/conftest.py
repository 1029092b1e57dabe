"""What several tests of measurements share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch_fidelity import FeatureExtractorInceptionV3

from tread_bench.data.digits.family import DigitsData
from tread_bench.data.source import DataSource, open_data


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def digits() -> DataSource:
    return open_data(DigitsData())


@pytest.fixture(scope="session")
def inception_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file as torch-fidelity's Inception wants it, with random weights."""
    path = tmp_path_factory.mktemp("inception") / "random.pth"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch_fidelity.feature_extractor_inceptionv3.load_state_dict_from_url", lambda *_, **__: {})
        patch.setattr(FeatureExtractorInceptionV3, "load_state_dict", lambda *_: None)
        torch.manual_seed(0)
        network = FeatureExtractorInceptionV3("inception", ["2048"])
    for module in network.modules():
        if isinstance(module, nn.Conv2d):  # signals keep their size from layer to layer, as in a trained network
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    torch.save(network.state_dict(), path)
    return path
