"""Safe reading of YAML with places: plain data, where each key and value was written, and what is wrong with it.

Plain scalars follow YAML 1.2's core schema (`1e-4` is a number, `on` and `yes` are text), since most people expect it.
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml import events as of
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from tread_bench.core.problems import Loc, Place, Places, Problem, SuiteError

MAX_DEPTH = 50
MAX_VALUES = 100_000  # those that aliases repeat included
LONGEST_NUMBER = 4_000  # digits; Python reads no integer of more than 4,300
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep, which no key of a suite is"
_TOO_MANY = f"more than {MAX_VALUES:,} values, with those that aliases repeat: split it"
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
    reader = _Reader(text, source, whole)
    reader.parse(text)
    return reader.document(), reader.places, reader.problems


def read_value(text: str, option: str) -> Any:
    """Return the value of an option of the command line. Raises SuiteError, whose problems name the option."""
    value, _, problems = read_yaml(text, option, whole=Place(option))
    if problems:
        raise SuiteError(problems)
    return value


class _Reader:
    """Makes plain data of a parser's `events`; `here` is the place of the last one that began something."""

    def __init__(self, text: str, source: str, whole: Place | None) -> None:
        self.lines, self.source, self.whole = _LINE_BREAK.split(text), source, whole
        self.places, self.problems = Places(), list[Problem]()
        self.events: list[Any] = []
        self.here = self.go_to(0, 0)
        self._next = 0  # event to be read
        self._values = 0  # read so far
        self._anchors: dict[str, int] = {}  # the events that they are written at
        self._open: set[str] = set()  # anchors of what is being read

    def parse(self, text: str) -> None:
        """Read the events."""
        depth = 0
        try:
            for event in YAML(typ="safe", pure=True).parse(text):
                self.events.append(event)
                self.go_to(event.start_mark.line, event.start_mark.column)
                depth += isinstance(event, of.CollectionStartEvent) - isinstance(event, of.CollectionEndEvent)
                if depth > MAX_DEPTH or len(self.events) > 2 * MAX_VALUES:  # a list has two events
                    break
        except ReaderError as error:
            before = _LINE_BREAK.split(f"{text[: error.position]}^")
            self.go_to(len(before) - 1, len(before[-1]) - 1)
            self.refuse("a control character: remove it")
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self.go_to(mark.line, mark.column)
            self.refuse(" ".join(filter(None, (error.problem, error.context))))
        except (ValueError, OverflowError, AssertionError) as error:  # escapes beyond Unicode, versions of YAML
            self.refuse(f"not readable as YAML: {error}")
        if depth > MAX_DEPTH:
            self.refuse(TOO_DEEP)
        if len(self.events) > 2 * MAX_VALUES:
            self.refuse(_TOO_MANY)

    def document(self) -> Any:
        """Return the data of the only document."""
        starts = [i for i, event in enumerate(self.events) if isinstance(event, of.DocumentStartEvent)]
        if not starts:
            self.go_to(0, 0)
            self.refuse("empty: write at least name and base")
        if len(starts) > 1:
            self._begin(self.events[starts[1]])
            self.refuse("a second document begins: keep one of the two")
        self._next = starts[0] + 1
        return self._value(())

    def _value(self, loc: Loc) -> Any:
        """Return the data that the next event begins; note its place and those below it."""
        event, index = self.events[self._next], self._next
        self._next += 1
        place = self._begin(event)
        if isinstance(event, of.ScalarEvent) and event.implicit[0] and not event.value:
            end = self.events[index - 1].end_mark  # to the parser an empty value begins where the next token does
            place = self.go_to(end.line, end.column)
        self.places.values[loc] = place
        if len(loc) > MAX_DEPTH:
            self.refuse(TOO_DEEP)

        # What an alias stands for is read again, so that mistakes have the places where they are written.
        if isinstance(event, of.AliasEvent):
            if event.anchor not in self._anchors:
                self.refuse(f"alias *{event.anchor} stands for nothing: write &{event.anchor} before a value above it")
            if event.anchor in self._open:
                self.refuse("an alias to something that contains it: write the value out")
            after, self._next = self._next, self._anchors[event.anchor]
            data = self._value(loc)
            self._next = after
            return data

        if event.ctag is not None:
            tag = str(event.ctag).replace("tag:yaml.org,2002:", "!!")
            self._note(f"tag {tag!r} is not read: write plain text, numbers, lists and mappings", loc)
        if event.anchor and self._anchors.setdefault(event.anchor, index) != index:
            self.refuse(f"anchor &{event.anchor} is written twice: rename one of the two")
        self._open.add(event.anchor)
        if isinstance(event, of.MappingStartEvent):
            data = self._mapping(loc)
        elif isinstance(event, of.SequenceStartEvent):
            data = []
            while not self._ends():
                data.append(self._value((*loc, len(data))))
        else:
            data = self._scalar(event, loc)
        self._open.discard(event.anchor)
        return data

    def _mapping(self, loc: Loc) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not self._ends():
            # The key, and what is wrong with it.
            event, mistake, key = self.events[self._next], "", ""
            place = self._begin(event)
            if isinstance(event, of.ScalarEvent):
                self._next += 1
                key = event.value
            else:
                self._value((*loc, key))
                mistake = "a key must be text: put it in quotes"
            if key == "<<":
                mistake = "merge keys (<<) are not read: put shared keys in base"
            elif key in data:
                first = self.places.keys[*loc, key].line
                mistake = f"key {key!r} is written twice, first in line {first}: keep one of the two"

            # The value; without a key, it is only read.
            if mistake:
                self.problems.append(Problem(mistake, loc, place=place))
                self._value((*loc, ""))
                continue
            begin = self.events[self._next]
            data[key] = self._value((*loc, key))
            self.places.keys[*loc, key] = place
            if isinstance(begin, of.MappingStartEvent) and not begin.flow_style:
                self.places.values[*loc, key] = place
        return data

    def _scalar(self, event: of.ScalarEvent, loc: Loc) -> object:
        text: str = event.value
        if not event.implicit[0]:  # in quotes
            return text
        if text in _WORDS:
            return _WORDS[text]
        if not _NUMBER.fullmatch(text):
            return text
        if len(text) > LONGEST_NUMBER or not math.isfinite(float(text)):
            self._note(f"{text[:40]!r} is not a finite number: correct it or put it in quotes", loc)
            return None
        return float(text) if set(text) & set(".eE") else int(text)

    def _ends(self) -> bool:
        """Go past the end of a list or a mapping, if it is next."""
        is_end = isinstance(self.events[self._next], of.CollectionEndEvent)
        self._next += is_end
        return is_end

    def _begin(self, event: Any) -> Place:
        self._values += 1
        if self._values > MAX_VALUES:
            self.refuse(_TOO_MANY)
        return self.go_to(event.start_mark.line, event.start_mark.column)

    def go_to(self, line: int, column: int) -> Place:
        text = self.lines[line] if line < len(self.lines) else ""
        self.here = self.whole or Place(self.source, line + 1, column + 1, text)
        return self.here

    def _note(self, message: str, loc: Loc) -> None:
        self.problems.append(Problem(message, loc, place=self.here))

    def refuse(self, message: str) -> NoReturn:
        raise SuiteError([*self.problems, Problem(message, place=self.here)]) from None
