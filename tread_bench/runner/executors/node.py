"""A task on a machine that a cluster's scheduler has chosen: in a process of its own, as on the runner's machine."""

from __future__ import annotations

import sys

from tread_bench.runner.executors.local import Local
from tread_bench.runner.executors.tasks import Ended, Task, run_one


def end_of(task: Task) -> Ended:
    """Return how its process ended. It sees the GPUs that the scheduler gave to this one."""
    main = sys.modules["__main__"]
    main.__spec__ = None  # with these two, a child would import the script that this process was started as
    vars(main).pop("__file__", None)
    return run_one(task, Local(workers=1, gpus=task.gpus))
