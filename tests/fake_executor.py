"""An executor without processes, on a machine of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tread_bench.core.stored.documents import Choices
from tread_bench.runner.executors.tasks import Ended, Task

NUMERICS = {"device": "cpu", "device_count": 1, "threads": 1, "cpu_capability": "AVX2"}


class Executor:
    """Settles the numerical choices, and has every other task end as a test wants it.

    Args:
        end: what becomes of a task; without it, each fails.
        refusal: why the choices cannot be settled.
        is_shared: whether the machine sees the run folder.
        machine: numerics that are not the usual ones.
    """

    at_once = 1

    def __init__(
        self, end: Callable[[Task], Ended] | None = None, refusal: str = "", is_shared: bool = True, **machine: object
    ) -> None:
        self.end = end or (lambda task: Ended(task.key, failure="not today"))
        self.refusal, self.is_shared = refusal, is_shared
        self.numerics = {**NUMERICS, **machine}

    def may_have_gpus(self) -> bool:
        return False

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Ended]:
        for task in tasks:
            if task.key != "numerics":
                yield self.end(task)
                continue
            if self.is_shared:
                task.log.touch()
            settled = Choices.model_validate({"numerics": self.numerics, "versions": {}})
            yield Ended(task.key, value=settled, failure=self.refusal)
