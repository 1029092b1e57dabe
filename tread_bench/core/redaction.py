"""What a file that leaves its machine must not say: paths become names, hosts and users become placeholders."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

HOST, USER, HOME = "HOST", "USER", "~"  # in place of names

_ROOT = r"(?:file://)?(?:~[\w.-]*|\.{1,2})?/"  # begins a path that is absolute, or starts at a home or with dots
_PART = r"[^\s'\"`,;:()\[\]{}<>|]"  # of a path that stands bare in a text
_URL = r"\bhttps?://[^\s'\"]*"
_RELATIVE = re.compile(rf"{_URL}|(?<![\w./])[\w.@%+-]+(?:/[\w.@%+-]+)+/?")
_SUFFIX = re.compile(r"\.[A-Za-z]\w*/?\Z")
_SAID_HOST = re.compile(r"\bhost '[^']*'|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)")  # `this_host`, or an IP address
_IN_HOME = re.compile(r"/(?:home|Users)/([^/]+)")


def this_host() -> str:
    """This machine, as messages name it that are kept: so that an export finds it, wherever it is made."""
    return f"host '{platform.node()}'"


class Redaction:
    """Reduces paths to names: one name for one path, two names for two paths that end alike.

    Args:
        paths: files and folders that texts may name; a text that is one of them is reduced whatever it looks like.
        folders: others whose names, with spaces say, may stand in a text.
        home: of the user.
        hosts: names of machines; users: names of people. Both are hidden in messages alone, since a row may be called
            as a machine is.

    Other paths are recognised by how they begin; in quotation marks they may hold spaces. Addresses of the web stay.
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

        # And in a message, which may name a folder as it was typed.
        tails = {"/".join(PurePath(folder).parts[start:]) for folder in folders for start in range(1, _depth(folder))}
        self._typed = re.compile(rf"(?<![\w./])(?P<bare>{_any_of(tails)}(?![\w-]){_PART}*)")

        # Who and where.
        users = {*users, *(user for path in (*known, *folders) for user in _IN_HOME.findall(path))}
        hosts = {name for host in hosts for name in (host, host.partition(".")[0])}
        self._words = {**dict.fromkeys(users, USER), **dict.fromkeys(hosts, HOST)}
        self._word = re.compile(rf"(?<![\w-]){_any_of(word for word in self._words if len(word) > 1)}(?![\w-])")

    def text(self, text: str) -> str:
        """A text without the folders of this machine."""
        if text in self.names:
            return self.names[text]
        return self._path.sub(self._reduced, text) if "/" in text else text

    def message(self, text: str) -> str:
        """The same of what a program said, without relative folders, hosts and users too."""
        text = self._typed.sub(self._reduced, _SAID_HOST.sub(HOST, self.text(text)))
        return self._word.sub(lambda found: self._words[found[0]], _RELATIVE.sub(_reduced_relative, text))

    def value(self, value: Any) -> Any:
        """The same JSON with each of its texts and keys as `text` gives it."""
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
    """The path's own name, or with a number if another one has it."""
    name, count = path.name, 1
    while name in taken:
        count += 1
        name = f"{path.stem} ({count}){path.suffix}"
    return name


def _any_of(texts: Iterable[str]) -> str:
    """A pattern for the longest of the texts; for nothing where there is none."""
    ordered = sorted(texts, key=lambda text: (-len(text), text))
    return rf"(?:{'|'.join(map(re.escape, ordered))})" if ordered else r"(?!)"


def _depth(folder: str) -> int:
    """How many of its ends have two parts or more."""
    return len(PurePath(folder).parts) - 1


def _reduced_relative(found: re.Match[str]) -> str:
    """The name of what is surely a relative path; `images/s` and `DiT-S/2` are none."""
    token = found[0]
    is_path = token.count("/") > 1 or _SUFFIX.search(token)
    return PurePath(token).name if is_path and "://" not in token else token
