"""Archives whose readers disagree, through every door that reads torch's files: nothing is run, memory is bounded."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from tests.data.crafted_archives import CRAFTED, Members, by_the_locator, entries
from tests.traps import Trap
from tread_bench.data.archives import archive_of, load_tensors, members_of
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.scaling import _array
from tread_bench.measure.quality.decoder import Decoder
from tread_bench.measure.quality.networks.inception.extractor import open_inception
from tread_bench.measure.weights_file import read_weights

STATISTICS = {"mean": torch.zeros(1, 4, 1, 1), "std": torch.ones(1, 4, 1, 1)}
OPENED: set[str] = set()
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


def read_decoder(path: Path) -> object:
    choice = {"image_size": 4, "decoded_size": 8, "images": ("i",), "decoder": str(path)}
    return Decoder(LatentsData(name="latents", train=("t",), held_out=("h",), **choice))


DOORS: dict[str, tuple[Callable[[Path], object], Callable[[bytes], bytes]]] = {
    "decoder": (read_decoder, lambda program: program),
    "weights": (read_weights, lambda program: saved(STATISTICS)),
    "inception": (open_inception, lambda program: saved(STATISTICS)),
    "statistics": (lambda path: _array("shift", str(path)), lambda program: saved(STATISTICS)),
}


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
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("craft", CRAFTED)
def test_a_crafted_archive_runs_nothing_and_fills_no_memory(
    craft: str, door: str, program: bytes, tmp_path: Path
) -> None:
    read, content_of = DOORS[door]
    marker, path = tmp_path / "sprung", tmp_path / "file.pt2"
    with zipfile.ZipFile(io.BytesIO(content_of(program))) as whole:
        clean = {name: whole.read(name) for name in whole.namelist()}
    if door not in OPENED:  # what is imported on the way is in memory then
        path.write_bytes(archive_of(clean))
        with suppress(ValueError):  # of Inception, whose tensors these are not
            read(path)
        OPENED.add(door)
    path.write_bytes(CRAFTED[craft](clean, with_a_trap(clean, Trap(marker))))
    message = ""
    with little_memory():
        try:
            read(path)
        except ValueError as error:
            message = str(error)
    assert "weights_only" not in message and "\n" not in message
    assert not marker.exists()


@pytest.mark.filterwarnings("ignore")
def test_the_trap_is_armed_where_torch_gets_the_file_itself(program: bytes, tmp_path: Path) -> None:
    clean = members_of(program)
    content = by_the_locator(entries(clean), entries(with_a_trap(clean, Trap(tmp_path / "sprung"))))
    assert members_of(content) == clean  # Python's reader sees nothing else
    with suppress(Exception):
        torch.export.load(io.BytesIO(content))
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("craft", ["locator", "text before", "zeros after", "data descriptors"])
def test_what_a_copy_holds_is_what_was_checked(craft: str, tmp_path: Path) -> None:
    members = members_of(saved(STATISTICS))
    crafted = CRAFTED[craft](members, with_a_trap(members, Trap(tmp_path / "sprung")))
    try:
        found = members_of(crafted)
    except ValueError:
        return
    assert found == members
    assert torch.equal(load_tensors(archive_of(found))["std"], STATISTICS["std"])


def test_a_sound_file_is_read_in_every_format() -> None:
    legacy = io.BytesIO()
    torch.save(STATISTICS, legacy, _use_new_zipfile_serialization=False)
    for content in (saved(STATISTICS), legacy.getvalue()):
        assert torch.equal(load_tensors(content)["std"], STATISTICS["std"])
    with pytest.raises(ValueError, match="pickle protocol"):
        load_tensors(save(STATISTICS))
