"""Redaction of files that leave their machine: paths become names, hosts and users become placeholders."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

HOST, USER, HOME = "HOST", "USER", "~"  # placeholders

_ROOT = r"(?:file://)?(?:~[\w.-]*|\.{1,2})?/"  # start of a path that is absolute, or starts at a home or with dots
_PART = r"[^\s'\"`,;:()\[\]{}<>|]"  # characters of an unquoted path in a text
_NUMBER = re.compile(r" \(\d+\)(?=(?:\.[^.]*)?\Z)")  # `_free_name`
_URL = r"\bhttps?://[^\s'\"]*"
_RELATIVE = re.compile(rf"{_URL}|(?<![\w./])[\w.@%+-]+(?:/[\w.@%+-]+)+/?")
_SUFFIX = re.compile(r"\.[A-Za-z]\w*/?\Z")
_SAID_HOST = re.compile(r"\bhost '[^']*'|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)")  # `this_host`, or an IP address
_IN_HOME = re.compile(r"/(?:home|Users)/([^/]+)")


def this_host() -> str:
    """Return this machine's name in the form in which stored messages name it, so that an export can find it."""
    return f"host '{platform.node()}'"


class Redaction:
    """Reduces paths to names: equal paths get the same name, different paths different names.

    Args:
        paths: files and folders that texts may name; a text equal to one of them is reduced, whatever it looks like.
        folders: further folders that may occur in a text, for example with spaces in their names.
        home: the user's home folder.
        hosts: names of machines.
        users: names of people. Hosts and users are hidden in messages only, since a row may have the same name.

    Other paths are recognised by how they begin; in quotation marks they may contain spaces. Web addresses are kept.
    """

    def __init__(
        self,
        paths: Iterable[str],
        folders: Iterable[str] = (),
        home: str = "",
        hosts: Iterable[str] = (),
        users: Iterable[str] = (),
    ) -> None:
        known, folders = sorted(set(paths)), [*folders, *filter(None, [home])]

        # A name for each path.
        self.names = {home: HOME} if home else {}
        taken: set[str] = set()
        for path in known:
            name = _free_name(PurePath(path), taken)
            taken.add(name)
            self.names.setdefault(path, name)

        # What a path looks like in a text: below a known folder, or by its beginning.
        above = {str(place) for path in (*known, *folders) for place in PurePath(path).parents}
        below = _any_of(place for place in {*above, *folders} if len(PurePath(place).parts) > 1)
        quoted = rf"(?P<mark>['\"`])(?P<quoted>{_ROOT}[^'\"`\n]+)(?P=mark)"
        bare = rf"(?<![\w./])(?P<bare>{below}(?![\w-]){_PART}*|{_ROOT}{_PART}+)"
        self._path = re.compile(rf"(?P<url>{_URL})|{quoted}|{bare}")

        # In a message, a folder may also be named as it was typed.
        tails = {"/".join(PurePath(folder).parts[start:]) for folder in folders for start in range(1, _depth(folder))}
        self._typed = re.compile(rf"(?<![\w./])(?P<bare>{_any_of(tails)}(?![\w-]){_PART}*)")

        # Users and hosts.
        users = {*users, *(user for path in (*known, *folders) for user in _IN_HOME.findall(path))}
        hosts = {name for host in hosts for name in (host, host.partition(".")[0])}
        self._words = {**dict.fromkeys(users, USER), **dict.fromkeys(hosts, HOST)}
        self._word = re.compile(rf"(?<![\w-]){_any_of(word for word in self._words if len(word) > 1)}(?![\w-])")

    def text(self, text: str) -> str:
        """Return a text without the folders of this machine."""
        if text in self.names:
            return self.names[text]
        return self._path.sub(self._reduced, text) if "/" in text else text

    def message(self, text: str) -> str:
        """Return a program's message without absolute or relative folders, hosts and users."""
        text = self._typed.sub(self._reduced, _SAID_HOST.sub(HOST, self.text(text)))
        return self._word.sub(lambda found: self._words[found[0]], _RELATIVE.sub(_reduced_relative, text))

    def value(self, value: Any) -> Any:
        """Return the same JSON with `text` applied to each of its texts and keys."""
        if isinstance(value, dict):
            return {self.text(key): self.value(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.value(part) for part in value]
        return self.text(value) if isinstance(value, str) else value

    def _reduced(self, found: re.Match[str]) -> str:
        groups = found.groupdict()
        if groups.get("url"):
            return found[0]
        mark, path = groups.get("mark") or "", groups.get("quoted") or groups["bare"]
        return f"{mark}{self.names.get(path) or PurePath(path).name}{mark}"


def _free_name(path: PurePath, taken: set[str]) -> str:
    """The path's own name, with a number if another path has taken it."""
    name, count = path.name, 1
    while name in taken:
        count += 1
        name = f"{path.stem} ({count}){path.suffix}"
    return name


def own_name(name: str) -> str:
    """Return the name of a path without the number that tells it from others of its name in a redacted document."""
    return _NUMBER.sub("", name)


def _any_of(texts: Iterable[str]) -> str:
    """A pattern for the longest of the texts; matches nothing if there are none."""
    ordered = sorted(texts, key=lambda text: (-len(text), text))
    return rf"(?:{'|'.join(map(re.escape, ordered))})" if ordered else r"(?!)"


def _depth(folder: str) -> int:
    """How many of the folder's suffixes have at least two parts."""
    return len(PurePath(folder).parts) - 1


def _reduced_relative(found: re.Match[str]) -> str:
    """The name of what is surely a relative path; `images/s` and `DiT-S/2` are not paths."""
    token = found[0]
    is_path = token.count("/") > 1 or _SUFFIX.search(token)
    return PurePath(token).name if is_path and "://" not in token else token
