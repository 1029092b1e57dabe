"""What is said of errors, whatever they are."""

from __future__ import annotations

import errno

import pytest
import torch

from tread_bench.core.errors import OUT_OF_MEMORY, error_text, failure_text, os_error_text, printable
from tread_bench.core.names import few


def test_a_long_text_is_shortened_in_the_middle():
    text = error_text(ValueError("start" + "-" * 10**7 + "end"))
    assert len(text) < 1100 and text.startswith("ValueError: start") and text.endswith("end")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.EIO, "Input/output error", "a.json"), "a.json: Input/output error"),
        (OSError(errno.EXDEV, "Cross-device link", "a", None, "b"), "a -> b: Cross-device link"),
        (OSError("broken"), "broken"),
    ],
)
def test_an_error_of_the_system_names_its_files(error, text):
    assert os_error_text(error).partition(";")[0] == text


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 G")])
def test_a_task_without_memory_says_so_in_one_line_with_the_way_out(error):
    assert failure_text(error).startswith(OUT_OF_MEMORY)


def test_a_task_s_failure_is_the_first_line():
    assert error_text(ValueError()) == "ValueError: no message"
    assert failure_text(ValueError("first\nsecond")) == "ValueError: first"


def test_what_cannot_be_printed_is_escaped_and_nothing_else():
    assert printable("caf\u00e9\x1b[1m\udce9") == "caf\u00e9\\x1b[1m\\udce9"


def test_of_many_names_the_first_are_given_and_the_rest_counted():
    assert [few(["a", "b", "c"], most) for most in (2, 3)] == ["a, b and 1 more", "a, b, c"]
