"""Safe reading of YAML with places: plain data, where each key and value was written, and what is wrong with it.

Scalars follow YAML 1.2's core schema (`1e-4` is a number, `on` and `yes` are text), since most people expect it.
"""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

import yaml

from tread_bench.core.problems import Loc, Place, Places, Problem, SuiteError

_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """A loader that composes nodes with YAML 1.2's plain scalars."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]  # declared without ClassVar there


for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_pattern})$"), list(_first))


def read_yaml(text: str, source: str, whole: Place | None = None) -> tuple[Any, Places, list[Problem]]:
    """Read one YAML document.

    Args:
        source: name of the document in messages.
        whole: the place of everything in it, if lines and columns mean nothing to the reader.

    Returns:
        plain data, the places of its keys and values, and mistakes that leave the rest readable.

    Raises:
        SuiteError: the text is not a YAML document.
    """
    reader = _Reader(text, source, whole)
    return reader.value(reader.compose(), (), ()), reader.places, reader.problems


class _Reader:
    def __init__(self, text: str, source: str, whole: Place | None) -> None:
        self.text, self.source, self.whole = text, source, whole
        self.lines = text.splitlines()
        self.places = Places()
        self.problems: list[Problem] = []

    def compose(self) -> yaml.Node:
        loader = None
        try:
            loader = _Loader(self.text)
            node = loader.get_single_node()
        except yaml.reader.ReaderError as error:
            before = self.text[: error.position].splitlines(keepends=True)
            raise self._refusal("a control character: remove it", self._at_end(before)) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._refusal(" ".join(filter(None, (error.problem, error.context))), self._at_mark(mark)) from None
        except (ValueError, OverflowError, RecursionError) as error:  # escapes beyond Unicode
            mark = loader.get_mark() if loader else None
            raise self._refusal(f"not readable as YAML: {error}", self._at_mark(mark)) from None
        if node is None:
            raise self._refusal("empty: write at least name and base", self._at(0, 0))
        return node

    def value(self, node: yaml.Node, loc: Loc, above: tuple[yaml.Node, ...]) -> Any:
        """Return the plain data of a node; note its place and those below it."""
        place = self._at_mark(node.start_mark)
        self.places.values[loc] = place
        if node in above:
            raise self._refusal("an alias to something that contains it: write the value out", place)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, loc, above)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*loc, i), (*above, node)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, loc)
        self._unread_tag(node, loc)
        return None

    def _mapping(self, node: yaml.MappingNode, loc: Loc, above: tuple[yaml.Node, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, place = key_node.value, self._at_mark(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem("a key must be text: put it in quotes", loc, place=place))
            elif key == "<<":
                self.problems.append(Problem("merge keys (<<) are not read: put shared keys in base", loc, place=place))
            elif key in data:
                self.problems.append(Problem(f"key {key!r} is written twice: keep one of the two", loc, place=place))
            else:
                data[key] = self.value(value_node, (*loc, key), (*above, node))
                self.places.keys[(*loc, key)] = place
                if isinstance(data[key], dict) and not value_node.flow_style:
                    self.places.values[(*loc, key)] = place
        return data

    def _scalar(self, node: yaml.ScalarNode, loc: Loc) -> object:
        text = node.value
        match node.tag.removeprefix(_TAG):
            case "str":
                return text
            case "null":
                return None
            case "bool" if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case "int" | "float" as kind:
                return self._number(text, kind, loc)
        self._unread_tag(node, loc)
        return None

    def _unread_tag(self, node: yaml.Node, loc: Loc) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self._note(f"tag {tag!r} is not read: write plain text, numbers, lists and mappings", loc)

    def _number(self, text: str, kind: str, loc: Loc) -> int | float | None:
        try:
            if kind == "int":
                return int(text)
            number = float(text)
        except ValueError:  # what a tag declares, say, or more digits than Python reads
            number = math.nan
        if math.isfinite(number):
            return number
        self._note(f"{text[:40]!r} is not a finite number: correct it or put it in quotes", loc)
        return None

    def _note(self, message: str, loc: Loc) -> None:
        self.problems.append(Problem(message, loc, place=self.places.values[loc]))

    def _refusal(self, message: str, place: Place) -> SuiteError:
        return SuiteError([*self.problems, Problem(message, place=place)])

    def _at(self, line: int, column: int) -> Place:
        text = self.lines[line] if line < len(self.lines) else ""
        return self.whole or Place(self.source, line + 1, column + 1, text)

    def _at_mark(self, mark: yaml.Mark | None) -> Place:
        return self._at(mark.line, mark.column) if mark else self._at(0, 0)

    def _at_end(self, before: list[str]) -> Place:
        if not before or before[-1].endswith("\n"):
            return self._at(len(before), 0)
        return self._at(len(before) - 1, len(before[-1]))
