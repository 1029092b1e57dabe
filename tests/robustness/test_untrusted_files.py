"""Files that somebody else wrote run nothing, and a run listens on no network."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from safetensors.torch import save

from tests.command_line import tread_bench_anew
from tests.traps import Trap
from tread_bench.cell.checkpoint import load_latest
from tread_bench.core.errors import UserError
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.source import open_data
from tread_bench.measure.quality.feature_store import load_statistics
from tread_bench.measure.quality.networks.classifier.network import open_classifier
from tread_bench.measure.quality.networks.inception.extractor import open_inception
from tread_bench.measure.sets.reference import open_reference
from tread_bench.measure.sets.samples import open_samples
from tread_bench.runner.folder import RunFolder
from tread_bench.suite.load import load_plan

CHECKOUT = Path(__file__).parents[2]


def torch_zip(path, trap):
    torch.save({"weight": torch.zeros(2), "trap": trap}, path)


def numpy_objects(path, trap):
    with open(path, "wb") as file:
        np.save(file, np.array([trap], dtype=object), allow_pickle=True)


def raw_pickle(path, trap):
    path.write_bytes(pickle.dumps(trap))


def safetensors_with_a_pickle(path, trap):
    """Well-formed, with pickles wherever text or bytes may stand."""
    payload = pickle.dumps(trap)
    tensor = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
    about = {"state": payload.hex(), "about": json.dumps({"spec": payload.hex(), "name": "x"}), "key": "x"}
    path.write_bytes(save({"a": tensor}, about))


def yaml_tags(path, trap):
    path.write_text(f"name: x\nbase: !!python/object/apply:os.mkdir ['{trap.marker}']\n{yaml.dump({'rows': trap})}")


def parquet_extension(path, trap):
    """An extension type whose metadata is a pickle, as old versions of pyarrow would load it (CVE-2023-47248)."""
    name, about = b"arrow.py_extension_type", pickle.dumps(trap)
    metadata = {b"ARROW:extension:name": name, b"ARROW:extension:metadata": about}
    field = pa.field("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())]), metadata=metadata)
    schema = pa.schema([field, pa.field("label", pa.int64())], metadata={b"pandas": pickle.dumps(trap)})
    rows = pa.table({"image": [{"bytes": pickle.dumps(trap), "path": "x"}], "label": [0]})
    pq.write_table(pa.Table.from_arrays([c.combine_chunks() for c in rows.columns], schema=schema), path)


TRAPS = (torch_zip, numpy_objects, raw_pickle, safetensors_with_a_pickle, yaml_tags, parquet_extension)


def checkpoint_of(path):
    """The file as the newest checkpoint, with a hash that fits: whoever writes one can write the other."""
    folder = path.parent / "checkpoints"
    folder.mkdir()
    for name in ("step-000000009.safetensors", "step-000000009.pt", "step-000000009.pkl"):
        shutil.copy(path, folder / name)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "step-000000009.sha256").write_text(digest)
    return load_latest(folder, "cell")


def data_of(path):
    shape = {"image_size": 8, "channels": 1, "num_classes": 2}
    return open_data(ParquetData(name="parquet", train=(str(path),), held_out=(str(path),), **shape))


def record_of(path):
    folder = RunFolder(path.parent)
    folder.cell("x").mkdir(parents=True)
    shutil.copy(path, folder.cell("x") / "record.json")
    return folder.record("x")


def pixels_of(path):
    return [*open_samples(path).batches(1)]


READERS = (
    *(open_classifier, open_inception, data_of, checkpoint_of, load_plan, record_of, load_statistics),
    *(pixels_of, open_reference),
)


@pytest.mark.filterwarnings("ignore")  # of torch, about files of unusual kinds
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("trap", TRAPS)
def test_a_file_that_hides_a_pickle_runs_nothing(tmp_path, trap, reader):
    path, marker = tmp_path / "file", tmp_path / "marker"
    trap(path, Trap(marker))
    try:
        found = reader(path)
    except (UserError, ValueError, KeyError):  # a checkpoint's content is its cell's failure, with the reason
        found = None
    assert not marker.exists()
    assert found is None or trap is safetensors_with_a_pickle


WATCH = """\
import os, sys
def watch(event, arguments):
    if event in ("socket.bind", "socket.connect", "socket.getaddrinfo"):
        with open(os.environ["WATCH_LOG"], "a") as log:
            log.write(f"{event} {arguments[-1]!r} {getattr(arguments[0], 'family', None)!r}\\n")
sys.addaudithook(watch)
"""


@pytest.mark.full
def test_a_run_opens_no_port_and_reaches_nobody(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    log, paths = tmp_path / "sockets", os.pathsep.join([str(tmp_path), str(CHECKOUT)])
    asked = ("run", "smoke", "--smoke", "--out", "run", "--set", "timing.pairs=0")
    done = tread_bench_anew(*asked, cwd=tmp_path, PYTHONPATH=paths, WATCH_LOG=str(log))
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    assert lines and [line for line in lines if "AF_UNIX" not in line] == []
