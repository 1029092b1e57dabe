"""Paths become names, and hosts and users placeholders, in whatever text they stand; all else stays as it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tread_bench.core.stored.redaction import Redaction

FILES = ("/home/anna/data/train/0.parquet", "/home/anna/data/held out/0.parquet", "/mnt/My Disk/inception.pt")
REDACTION = Redaction(
    FILES,
    folders=["/scratch/Anna Smith/runs/toy"],
    home="/home/anna",
    hosts=["node7.cluster.example"],
    users=["asmith"],
)

TEXTS = {
    "/home/anna/data/train/0.parquet": "0 (2).parquet",
    "/home/anna/data/held out/0.parquet": "0.parquet",
    "/home/anna/data/train/0.parquet cannot be read": "0 (2).parquet cannot be read",
    "/mnt/My Disk/inception.pt: no": "inception.pt: no",
    "/mnt/My Disk/other.pt, say": "other.pt, say",
    "No such file: '/opt/a b/c.pt'": "No such file: 'c.pt'",
    "home is /home/anna": "home is ~",
    "weights=/tmp/x/y.pt+/tmp/z": "weights=z",
    "(see file:///home/bea/x.txt)": "(see x.txt)",
    "in ~bea/x/y or ../x/y": "in y or y",
    "error:/opt/x/y": "error:y",
    "Figures of https://arxiv.org/abs/2501.04765": "Figures of https://arxiv.org/abs/2501.04765",
}
SAME = (
    *("DiT-S/2", "1/6:2/3@0.5", "images/s", "tread 2:-4@0.5", "a / b", "and/or", "", "cifar10/route_placement"),
    *("node7 asmith", "uint8, round((x + 1) * 127.5)", "dense-s0-a8e3e1ce6a"),
)
MESSAGES = {
    "on node7.cluster.example, threads was 1": "on HOST, threads was 1",
    "node7 does not see the folder /scratch/Anna Smith/runs/toy/cells/a": "HOST does not see the folder a",
    "on host 'gpu3.elsewhere', threads was 1": "on HOST, threads was 1",
    "node 10.0.0.12 died, and 10.0.0.13.": "node HOST died, and HOST.",
    "numpy 2.4.6 on a host that is slow": "numpy 2.4.6 on a host that is slow",
    "lost by asmith, not by asmith2": "lost by USER, not by asmith2",
    "runs/toy/cells/a/checkpoints/step-1.safetensors is another's": "step-1.safetensors is another's",
    "runs/toy: no": "toy: no",
    "data/x.parquet has changed": "x.parquet has changed",
    "owned by anna": "owned by USER",
    "out of memory: 9 images/s of DiT-S/2 at 1/6:2/3": "out of memory: 9 images/s of DiT-S/2 at 1/6:2/3",
    "see https://pytorch.org/docs/stable/x.html": "see https://pytorch.org/docs/stable/x.html",
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_path_in_a_text_becomes_a_name(text):
    assert REDACTION.text(text) == TEXTS[text]


@pytest.mark.parametrize("text", SAME)
def test_what_is_no_path_stays(text):
    assert REDACTION.text(text) == text


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_loses_relative_paths_hosts_and_users_too(message):
    assert REDACTION.message(message) == MESSAGES[message]


def test_nothing_known_hides_nothing_but_paths():
    assert Redaction([]).message("on node7, by asmith: /a/b") == "on node7, by asmith: b"


NAMES = st.text("ab .-_é", min_size=1, max_size=6).filter(lambda name: name.strip(" .") == name)
PATHS = st.lists(NAMES, min_size=2, max_size=5).map(lambda parts: "/" + "/".join(parts))


@given(st.lists(PATHS, min_size=1, max_size=6, unique=True))
def test_two_paths_never_get_one_name_and_none_has_a_folder(paths):
    redaction = Redaction(paths)
    names = [redaction.text(path) for path in paths]
    assert len(set(names)) == len(paths)
    assert not any("/" in name for name in names)


@given(PATHS, st.sampled_from(["{}", "{} cannot be read", "no such file: '{}'", "x={}; y", "({}): 3", "{}, {}"]))
def test_no_folder_of_a_known_path_is_left_in_a_text(path, text):
    found = Redaction([path]).message(text.format(path, path))
    assert not re.search(r"(^|[\s=('\"])/", found), found
    assert "/" not in found
