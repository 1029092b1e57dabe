"""Safe reading of YAML with places: plain data, where each key and value was written, and what is wrong with it.

Plain scalars follow YAML 1.2's core schema (`1e-4` is a number, `on` and `yes` are text), since most people expect it.
Tags (`!!int`) have no effect.
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.composer import MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, StringMark
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from tread_bench.core.problems import Loc, Place, Places, Problem, SuiteError

MAX_DEPTH = 50
LONGEST_NUMBER = 4_000  # characters; Python converts no longer integers
MAX_VALUES = 100_000  # those that aliases repeat included
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep, which no key of a suite is"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_LINE_BREAK = re.compile(r"\r\n|[\r\n]")  # of YAML 1.2
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def read_yaml(text: str, source: str, whole: Place | None = None) -> tuple[Any, Places, list[Problem]]:
    """Read one YAML document.

    Args:
        source: name of the document in messages.
        whole: the place of everything in it, if lines and columns mean nothing to the reader.

    Returns:
        plain data, the places of its keys and values, and mistakes that leave the rest readable.

    Raises:
        SuiteError: the text is not a YAML document, or has too many values.
    """
    reader = _Reader(source, whole)
    data = reader.value(reader.composed(text), ())
    return data, reader.places, reader.problems


def read_value(text: str, option: str) -> Any:
    """Return the value of an option of the command line. Raises SuiteError, whose problems name the option."""
    value, _, problems = read_yaml(text, option, whole=Place(option))
    if problems:
        raise SuiteError(problems)
    return value


class _Reader:
    """Makes plain data of the nodes that ruamel.yaml composes."""

    def __init__(self, source: str, whole: Place | None) -> None:
        self.source, self.whole = source, whole
        self.places, self.problems = Places(), list[Problem]()
        self._values = 0  # read so far

    def composed(self, text: str) -> Node:
        """Return the root of the only document."""
        yaml = YAML(typ="safe", pure=True)
        yaml.max_depth = MAX_DEPTH
        yaml.composer.warn_double_anchors = False  # the last one counts
        try:
            root: Node | None = yaml.compose(text)
        except ReaderError as error:
            before = _LINE_BREAK.split(f"{text[: error.position]}^")
            self._refuse("a control character: remove it", self._at(len(before) - 1, len(before[-1]) - 1))
        except MaxDepthExceededError as error:
            self._refuse(TOO_DEEP, self._start(error.problem_mark))
        except MarkedYAMLError as error:
            message = ": ".join(filter(None, (error.context, error.problem)))
            self._refuse(message, self._start(error.problem_mark or error.context_mark))
        except (ValueError, LookupError, ArithmeticError, AssertionError) as error:  # escapes beyond Unicode, versions
            self._refuse(f"not readable as YAML: {error}", self.whole or Place(self.source))
        if root is None:
            self._refuse("empty: write at least name and base", self._at(0, 0))
        return root

    def value(self, node: Node, loc: Loc) -> Any:
        """Return a node's data; note its place and those below it.

        What an alias stands for is read again, so that mistakes have the places where they are written.
        """
        place = self._start(node.start_mark)
        self.places.values[loc] = place
        self._values += 1
        if self._values > MAX_VALUES:
            self._refuse(f"more than {MAX_VALUES:,} values, with those that aliases repeat: split it", place)
        if len(loc) > MAX_DEPTH:  # by an alias to something that contains it
            self._refuse(TOO_DEEP, place)
        if isinstance(node, MappingNode):
            return self._mapping(node, loc)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*loc, k)) for k, item in enumerate(node.value)]

        # A scalar, in quotes or plain.
        assert isinstance(node, ScalarNode)
        text: str = node.value
        if node.style is not None or (text not in _WORDS and not _NUMBER.fullmatch(text)):
            return text
        if text in _WORDS:
            return _WORDS[text]
        if len(text) > LONGEST_NUMBER or not math.isfinite(float(text)):
            self._note(f"{text[:40]!r} is not a finite number: correct it or put it in quotes", loc, place)
            return None
        return float(text) if set(text) & set(".eE") else int(text)

    def _mapping(self, node: MappingNode, loc: Loc) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, item in node.value:
            key, place = key_node.value, self._start(key_node.start_mark)
            if not isinstance(key, str):
                self._note("a key must be text: put it in quotes", loc, place)
            elif key == "<<":
                self._note("merge keys (<<) are not read: put shared keys in base", loc, place)
            elif key in data:
                first = self.places.keys[*loc, key].line
                self._note(f"key {key!r} is written twice, first in line {first}: keep one of the two", loc, place)
            else:
                data[key] = self.value(item, (*loc, key))
                self.places.keys[*loc, key] = place
                if item.start_mark.line > key_node.start_mark.line:  # below its key, or empty
                    self.places.values[*loc, key] = place
        return data

    def _start(self, mark: StringMark) -> Place:
        return self._at(mark.line, mark.column)

    def _at(self, line: int, column: int) -> Place:
        return self.whole or Place(self.source, line + 1, column + 1)

    def _note(self, message: str, loc: Loc, place: Place) -> None:
        self.problems.append(Problem(message, loc, place=place))

    def _refuse(self, message: str, place: Place) -> NoReturn:
        raise SuiteError([*self.problems, Problem(message, place=place)]) from None
