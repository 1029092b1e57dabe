"""Tensors of a safetensors file, mapped into memory: what is never used is never read."""

from __future__ import annotations

from functools import cache

from safetensors import SafetensorError, safe_open

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.core.stored.foreign import check_file

FLOATS = {"F16": "float16", "F32": "float32"}
INTEGERS = {"I64": "int64"}
BYTES = {"U8": "uint8"}


class TensorFile:
    """A file of named tensors. Raises UserError naming file, tensor and rule."""

    def __init__(self, path: str) -> None:
        self.path = path
        with named_where_unreadable(path):
            check_file(path)
            try:
                self._file = safe_open(path, framework="pt")
            except SafetensorError as error:
                raise UserError(f"{path}: not a readable safetensors file: {error}") from None
        self.names = self._file.keys()
        self.tensor = cache(self._file.get_tensor)  # by name; of torch, mapped into memory

    def shape(self, name: str, types: dict[str, str], way_out: str = "") -> tuple[int, ...]:
        """Return the shape of a tensor, of which nothing else is read.

        Args:
            types: that it may have, by their codes in the file.
            way_out: what to do where there is no such tensor.
        """
        if name not in self.names:
            has = ", ".join(self.names) or "none"
            raise UserError(f"{self.path}: no tensor {name!r}; it has {has}{way_out}")
        about = self._file.get_slice(name)
        if (code := about.get_dtype()) not in types:
            rule = " or ".join(f"{word} ({known})" for known, word in types.items())
            raise UserError(f"{self.path}: {name} are {code}; store {rule}")
        return tuple(about.get_shape())
