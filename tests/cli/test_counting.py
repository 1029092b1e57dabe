"""Progress of what is counted, where stderr is not a terminal."""

from __future__ import annotations

from tread_bench.services.display import CountedLines


def test_progress_says_how_far_each_split_is_and_how_long_it_may_take() -> None:
    said: list[str] = []
    now = [0.0]
    lines = CountedLines(" on cuda", said.append, lambda: now[0])
    for seconds, split, done in ((0, "train", 10), (5, "train", 20), (30, "train", 40), (90, "train", 100)):
        now[0] = seconds
        lines(split, done, 100)
    lines("held_out", 5, 5)
    lines("held_out", 5, 5)  # stands still
    assert said == [
        "train on cuda: 10 of 100",
        "train: 40 of 100, 0:30 elapsed, about 1:00 left",
        "train: 100 of 100, 1:30 elapsed",
        "held_out on cuda: 5 of 5",
    ]
