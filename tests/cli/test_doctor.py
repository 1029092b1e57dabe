"""`doctor` says which weights are there, which metrics need them, and where they are published."""

from __future__ import annotations

from tests.command_line import tread_bench
from tread_bench.cli.commands.doctor import examine
from tread_bench.core.describe.metrics import extractors

INCEPTION = extractors.find("inception").published[0]


SHA256 = "53959fa102f31e51d8d1ee12fe89c2fd7cd556dbaf2c6102046d195a504850a0"  # of b"other weights"


def test_weights_come_with_publisher_and_metrics_and_whether_they_are_the_published_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("TREAD_BENCH_WEIGHTS", str(tmp_path))
    found = examine()
    assert found["weights_folder"] == str(tmp_path)
    assert found["weights"].keys() == {"inception", "dinov2"}
    inception, dinov2 = found["weights"]["inception"], found["weights"]["dinov2"]
    assert inception["file"] == dinov2["file"] == "missing"
    assert inception["published as"] == f"{INCEPTION.file} ({INCEPTION.where})"
    assert inception["needed for"].startswith("FID;") and dinov2["needed for"].startswith("FD-DINOv2;")
    metrics = [set(one["needed for"].partition(": ")[2].split(", ")) for one in (inception, dinov2)]
    assert metrics[0] >= {"fid", "sfid", "kid", "precision_recall", "inception_score"}
    assert metrics[0] - metrics[1] == {"inception_score", "sfid"}

    # A file is shown with its hash.
    unhashed = extractors.find("dinov2").published[1]
    for published in (INCEPTION, unhashed):
        (tmp_path / published.file).write_bytes(b"other weights")
    found = examine()["weights"]
    assert found["inception"]["file"] == f"{tmp_path / INCEPTION.file}, sha256 {SHA256[:12]}, not the published file"
    assert found["dinov2"]["file"] == f"{tmp_path / unhashed.file}, sha256 {SHA256[:12]}, no hash is published"


def test_it_is_printed_as_a_table() -> None:
    done = tread_bench("doctor")
    assert done.returncode == 0
    assert "weights inception" in done.stdout and INCEPTION.file in done.stdout
