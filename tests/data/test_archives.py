"""Programs in archives whose readers disagree: nothing is run, memory is bounded."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from tests.traps import Trap
from tread_bench.core.errors import UserError
from tread_bench.data.archives import load_tensors
from tread_bench.data.latents.options import LatentsData
from tread_bench.measure.quality.decoder import Decoder

Members = dict[str, bytes]
STATISTICS = {"mean": torch.zeros(1, 4, 1, 1), "std": torch.ones(1, 4, 1, 1)}
MOST_MIB = 256  # that a reader may add for a moment: half of the bomb, and more than a busy process moves by itself


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def program() -> bytes:
    class Upscale(torch.nn.Module):
        def forward(self, latents: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.interpolate(latents[:, :3], scale_factor=2.0).tanh()

    buffer = io.BytesIO()
    torch.export.save(torch.export.export(Upscale(), (torch.zeros(16, 4, 4, 4),)), buffer)
    return buffer.getvalue()


def members_of(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(*parts: Members, method: int = zipfile.ZIP_STORED) -> bytes:
    """The members of all parts, one after the other."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file, warnings.catch_warnings(action="ignore"):  # of a name twice
        for members in parts:
            for name, content in members.items():
                file.writestr(name, content)
    return buffer.getvalue()


CRAFTED: dict[str, Callable[[Members, Members], bytes]] = {
    "a name twice": lambda clean, evil: archive(clean, evil),
    "another archive behind": lambda clean, evil: archive(clean) + archive(evil),
    "half a GiB of zeros": lambda clean, evil: archive(
        {**clean, next(iter(clean)): bytes(2**29)}, method=zipfile.ZIP_DEFLATED
    ),
}


def read_decoder(path: Path) -> object:
    choice = {"image_size": 4, "decoded_size": 8, "images": ("i",), "decoder": str(path)}
    return Decoder(LatentsData(name="latents", train=("t",), held_out=("h",), **choice))


def with_a_trap(members: Members, trap: Trap) -> Members:
    """Each pickle replaced by one that is run, where nothing restricts it."""
    hostile = saved({"trap": trap})
    unpacked = members_of(hostile)
    found = {}
    for name, content in members.items():
        is_pickle = name.endswith("data.pkl")
        found[name] = hostile if name.endswith(".pt") else unpacked["archive/data.pkl"] if is_pickle else content
    return found


@contextmanager
def little_memory() -> Iterator[None]:
    """Let this process take at most `MOST_MIB` more at any time; without a limit where no kernel says its peak."""
    if not Path("/proc/self/clear_refs").exists():
        yield
        return
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what it has now
    before = peak_mib()
    yield
    assert peak_mib() - before < MOST_MIB


def peak_mib() -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("craft", CRAFTED)
def test_a_crafted_archive_runs_nothing_and_fills_no_memory(craft: str, program: bytes, tmp_path: Path) -> None:
    marker, path = tmp_path / "sprung", tmp_path / "file.pt2"
    path.write_bytes(program)
    read_decoder(path)  # what is imported on the way is in memory then
    clean = members_of(program)
    path.write_bytes(CRAFTED[craft](clean, with_a_trap(clean, Trap(marker))))
    with little_memory(), suppress(UserError):
        read_decoder(path)
    assert not marker.exists()


def test_a_sound_file_is_read_in_every_format() -> None:
    legacy = io.BytesIO()
    torch.save(STATISTICS, legacy, _use_new_zipfile_serialization=False)
    for content in (saved(STATISTICS), legacy.getvalue()):
        assert torch.equal(load_tensors(content)["std"], STATISTICS["std"])
    with pytest.raises(ValueError, match="pickle protocol"):
        load_tensors(save(STATISTICS))
