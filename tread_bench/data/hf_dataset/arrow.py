"""The Arrow files of a data set that `datasets.Dataset.save_to_disk` wrote, mapped into memory.

Source: huggingface/datasets, arrow_dataset.py: `state.json` names the files in their order, and each is an Arrow
stream. pyarrow reads them, so `datasets` need not be installed.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from tread_bench.core.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

_STATE = "state.json"
_SPLITS = "dataset_dict.json"
_WAY_OUT = "save the data set again with `save_to_disk`"


def arrow_files(folder: str) -> list[tuple[str, pa.Table]]:
    """Path and table of each file of a data set, in their order; rows stay on disk.

    Raises:
        UserError: naming file and rule.
    """
    return [(path, _table(path)) for path in _paths(folder)]


def _paths(folder: str) -> list[str]:
    # A folder of several splits is not a data set itself.
    if splits := _json(os.path.join(folder, _SPLITS)):
        names = ", ".join(map(str, splits.get("splits", ())))
        raise UserError(f"{folder}: a folder of data sets; name one of them: {names}")

    # The names of the files.
    path = os.path.join(folder, _STATE)
    state = _json(path)
    if state is None:
        raise UserError(f"{folder}: not a data set of Hugging Face's `datasets`: no {_STATE} in it; {_WAY_OUT}")
    try:
        files = [file["filename"] for file in state["_data_files"]]
        if not all(name and name == os.path.basename(name) for name in files):  # elsewhere than beside it
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path}: `_data_files` does not list files beside it; {_WAY_OUT}") from None
    return [os.path.join(folder, name) for name in files]


def _json(path: str) -> dict[str, Any] | None:
    """An object; None where there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a readable JSON file: {error}; {_WAY_OUT}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: not a JSON object; {_WAY_OUT}")
    return found


def _table(path: str) -> pa.Table:
    import pyarrow as pa

    try:
        return pa.ipc.open_stream(pa.memory_map(path)).read_all()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file, and {_STATE} beside it names it; {_WAY_OUT}") from None
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: not a readable Arrow stream: {error}; {_WAY_OUT}") from None
