"""torch.export programs from files that need not be trusted: arithmetic on tensors, or an error.

torch's own loader unpickles without restriction in places, evaluates symbolic sizes and guards, and writes names into
Python code. Whatever would reach those places is refused before it is called, so that a program runs only ATen
operators of fixed sizes.
"""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any

import torch

from tread_bench.core.errors import UserError
from tread_bench.core.stored.foreign import open_archive, read_member

_MEMBERS = re.compile(
    r"models/[^/]+\.json|data/(weights|constants)/([^/]+_config\.json|(weight|tensor)_\d+)"
    r"|data/sample_inputs/[^/]+\.pt"
    r"|archive_format|archive_version|byteorder|\.data/(version|serialization_id)"
)
_CONFIG = re.compile(r"data/(weights|constants)/[^/]+_config\.json")
_OPERATOR = re.compile(r"torch\.ops\.aten\.(?!from_file\b|save\b)\w+\.\w+")
_NAME = re.compile(r"[\w.,>-]*")  # of tensors, weights and modes: no text that could call anything
_TREES = (None, "builtins.tuple", "builtins.list", "builtins.dict")
_FOR_PEOPLE = ("metadata", "torch_version")  # not part of what is computed


def load_program(path: str, content: bytes) -> torch.export.ExportedProgram:
    """Return the program of a .pt2 file. Raises UserError if it is not one, or has more than tensors and ATen
    operators.
    """
    try:
        from torch.export.pt2_archive._package import load_pt2  # since torch 2.8; torch.export.load hides why it fails

        program = _checked_copy(content)
        with warnings.catch_warnings():  # torch before 2.12; nobody writes to what is read
            warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
            return load_pt2(io.BytesIO(program)).exported_programs["model"]
    except Exception as error:  # a damaged file may raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path}: not a torch.export program, or not safe to load ({reason}); write it with torch.export.save, "
            "with an input of fixed sizes"
        ) from None


def _checked_copy(content: bytes) -> bytes:
    """A new archive of a plain program: graphs, tensors and its other parts, and nothing else.

    It is a copy, since another reader of the same file might find other members than those that were checked. Raises
    any exception where it is not a plain program.
    """
    copy = io.BytesIO()
    with open_archive(io.BytesIO(content), len(content)) as archive, zipfile.ZipFile(copy, "w") as checked:
        root = next(iter(archive.namelist()), "").partition("/")[0] + "/"
        for name in archive.namelist():
            member, inside = read_member(archive, name, len(content)), name.removeprefix(root)
            if not _MEMBERS.fullmatch(inside):
                raise ValueError(f"{name!r} is not part of a plain program")
            if inside.startswith("models/"):
                _check_graph(json.loads(member))
            elif _CONFIG.fullmatch(inside):
                for tensor, about in json.loads(member)["config"].items():
                    is_raw = about["path_name"].startswith(("weight_", "tensor_"))
                    if about.get("use_pickle") is not False or not is_raw:
                        raise ValueError(f"tensor {tensor!r} is pickled")
            elif inside.startswith("data/sample_inputs/"):
                member = b""  # of a pickle, and a program runs without them
            checked.writestr(name, member)
    return copy.getvalue()


def _check_graph(graph: object) -> None:
    for key, value in _parts(graph):
        if key == "expr_str":
            raise ValueError(f"a size is not fixed ({value!r})")
        if key == "guards_code" and value:
            raise ValueError(f"it has guards ({value!r})")
        if key in ("in_spec", "out_spec"):
            for name, kind in _parts(json.loads(value)):
                if name == "type" and kind not in _TREES:
                    raise ValueError(f"inputs or outputs contain a {kind!r}")
        elif isinstance(value, str) and not _NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not a name")
        is_call = isinstance(value, dict) and {"target", "inputs"} <= value.keys()
        if is_call and not _OPERATOR.fullmatch(value["target"]):
            raise ValueError(f"operator {value['target']!r} is not in torch.ops.aten")


def _parts(value: object, key: str = "") -> Iterator[tuple[str, Any]]:
    """Everything inside, with its key; keys themselves as well."""
    yield key, value
    if isinstance(value, dict):
        for name, item in value.items():
            yield "", name
            if name not in _FOR_PEOPLE:
                yield from _parts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _parts(item, key)
