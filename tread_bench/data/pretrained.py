"""Networks that diffusers and transformers load from local folders: nothing is downloaded, and no file can run code."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.core.stored.foreign import one_line


def load_pretrained(library: Any, name: str, folder: Path, wrong: dict[str, str], **options: Any) -> Any:
    """Return a network in evaluation mode, with every weight from the folder's safetensors file.

    Args:
        library: diffusers or transformers.
        name: of the network's class.
        wrong: what may be wrong with a weight, in words -> the library's key of the weights of which it is true.

    Raises:
        UserError: the library cannot load the folder; a weight is missing, which would be random, or otherwise wrong.
    """
    try:
        with quiet(library.__name__):
            network, about = getattr(library, name).from_pretrained(
                folder, local_files_only=True, use_safetensors=True, output_loading_info=True, **options
            )
    except MemoryError:
        raise
    except Exception as error:  # of any kind, where a file is damaged
        version = f"{library.__name__} {library.__version__}"
        raise UserError(f"{folder}: {version} cannot load its {name} ({one_line(error)})") from None
    found = {what: sorted(map(str, about[key])) for what, key in wrong.items()}
    problems = [f"{len(names)} weights are {what}, such as {names[0]}" for what, names in found.items() if names]
    if problems:
        raise UserError(
            f"{folder}: {'; '.join(problems)}: they do not fit config.json; download both again, or give a folder that "
            "`save_pretrained` wrote"
        )
    return network.eval().requires_grad_(False)


def import_library(library: str, extra: str, what: str | Path) -> Any:
    """Return the module of a library, which `what` needs and `extra` installs. Raises UserError: it is not there."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise UserError(f"{what}: needs {library} ({error}): pip install 'tread-bench[{extra}]'") from None


@contextmanager
def quiet(library: str) -> Iterator[None]:
    """Without the warnings of a library: what they say is an error here."""
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def in_chunks(compute: Callable[[Tensor], Tensor], values: Tensor, size: int) -> Tensor:
    """`compute` of (B, ...), always `size` at a time, so that no result depends on how many there are.

    The last ones are filled up with zeros.
    """
    found = []
    for part in values.split(size):
        filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
        found.append(compute(filled)[: len(part)])
    return torch.cat(found)


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """No autocast, no TF32, no algorithm search: the result must not depend on the precision of the training."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with (
            nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False),
            torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False),
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
