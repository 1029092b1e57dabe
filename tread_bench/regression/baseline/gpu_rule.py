"""When a GPU changed during a measurement, so that its times cannot support a verdict."""

from __future__ import annotations

from collections.abc import Iterator

from tread_bench.core.stored.records import GpuConditions

CLOCK_SHARE = 0.05  # that a clock may change by; boost moves in steps of 15 MHz, below 1 %
CLOCK_SHARE_OF_RUNS = 0.10  # by which it may differ between two runs: as wide as the limit on their times
TEMPERATURE_C = 15  # that the temperature may change by
# What protects the device. A software power cap is not among these: under full load many GPUs are at their cap all the
# time, and its cost shows in the clock.
SLOWDOWNS = ("hardware slowdown", "hardware thermal slowdown", "hardware power brake", "software thermal slowdown")


def moved(before: GpuConditions | None, after: GpuConditions | None) -> list[str]:
    """In words, what disturbed the measurement between two readings; empty where nothing did or nothing was read."""
    if before is None or after is None:
        return []
    changes = []
    for name, clock, later in _other_clocks(before, after, CLOCK_SHARE):
        changes.append(f"its {name} clock went from {clock} to {later} MHz")
    was, now = before.temperature_c, after.temperature_c
    if was is not None and now is not None and abs(now - was) > TEMPERATURE_C:
        changes.append(f"its temperature went from {was} to {now} °C")
    if before.power_limit_w != after.power_limit_w:
        changes.append(f"its power limit went from {before.power_limit_w} to {after.power_limit_w} W")
    seen = {*(before.throttle_reasons or ()), *(after.throttle_reasons or ())}
    if slowed := [reason for reason in SLOWDOWNS if reason in seen]:
        changes.append(f"it was throttled ({', '.join(slowed)})")
    if others := max(before.other_processes or 0, after.other_processes or 0):
        changes.append(f"other processes computed on it ({others})")
    return changes


def changed(accepted: GpuConditions | None, now: GpuConditions | None) -> list[str]:
    """In words, why times of two runs on one GPU are not comparable; empty where nothing was read in the first one."""
    if accepted is None:
        return []
    if now is None:
        return ["NVML reported its state when accepted, and does not now"]
    changes = []
    for name, was_mhz, is_mhz in _other_clocks(accepted, now, CLOCK_SHARE_OF_RUNS):
        changes.append(f"its {name} clock was {was_mhz} MHz when accepted and is {is_mhz} MHz now")
    was_w = accepted.power_limit_w
    is_w = now.power_limit_w
    if None not in (was_w, is_w) and was_w != is_w:
        changes.append(f"its power limit was {was_w} W when accepted and is {is_w} W now")
    return changes


def _other_clocks(before: GpuConditions, after: GpuConditions, share: float) -> Iterator[tuple[str, int, int]]:
    """Clocks that differ by more than a share of the first reading: name and both readings, in MHz."""
    for name, key in (("SM", "sm_clock_mhz"), ("memory", "memory_clock_mhz")):
        was, now = getattr(before, key), getattr(after, key)
        if was and now and abs(now - was) > share * was:
            yield name, was, now
