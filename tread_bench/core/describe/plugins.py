"""Plug-ins: descriptions found through entry points, and code named as text, "module:attribute".

A description is small and torch-free, so that listing, validating and planning stay instant; what it describes is named
as text and imported when needed. The package's own plug-ins are found in the same way as a third party's.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

from tread_bench.core.errors import error_text, printable
from tread_bench.core.names import unknown

_OWN = "tread-bench"  # name of this package's distribution
GROUPS = "tread_bench."  # common prefix of all entry point groups
_DIGITS = 16  # of a hash of code

_log = logging.getLogger(__name__)  # warnings go to stderr unless the user has set a handler
_installed: Any = cache(entry_points)  # one look at what is installed serves every kind of plug-in


@dataclass(frozen=True, kw_only=True, eq=False)
class Description:
    """What a plug-in announces.

    Args:
        name: its name in a suite.
        source: name and version of the distribution that announces it; empty until it is found.
    """

    name: str
    source: str = field(default="", compare=False)

    @property
    def is_own(self) -> bool:
        """Whether this package itself announces it."""
        return self.source.startswith(f"{_OWN} ")


D = TypeVar("D", bound=Description)


@dataclass(frozen=True, eq=False)
class Kind(Generic[D]):
    """A kind of plug-in; called, it returns what is announced of it.

    Args:
        word: its name in messages.
        group: entry point group that announces it.
        of: class of its descriptions.
        options: base class of its descriptions' options; None: they have none.
        names: all names by which a description is found.
        key: the key of a suite that names one; empty: its word.
    """

    word: str
    group: str
    of: type[D]
    options: type | None = None
    names: Callable[[D], Iterable[str]] = lambda description: (description.name,)
    key: str = ""

    @cache  # noqa: B019  # a kind lives as long as the process
    def __call__(self) -> dict[str, D]:
        """Return every announced description that can be used, by name."""
        return announced(self)

    def find(self, name: str) -> D:
        """Return the description of that name. Raises ValueError."""
        known = self()
        if name not in known:
            raise ValueError(unknown(self.key or self.word, name, known))
        return known[name]

    def wrong_with(self, description: Any) -> str:
        """Return the rule that a description breaks; empty if none."""
        if not isinstance(description, self.of):
            return f"{type(description).__name__} is not a tread_bench.{self.of.__name__}"
        if self.options is None:
            return ""
        options, name = getattr(description, "options", None), description.name
        if not (isinstance(options, type) and issubclass(options, self.options)):
            return f"its options must be a subclass of tread_bench.{self.options.__name__}"
        field = options.model_fields["name"]  # type: ignore[attr-defined]
        if get_args(field.annotation) != (name,) or field.default != name:
            return f"its options must have the field name: Literal[{name!r}] = {name!r}"
        return ""


def named(target: str) -> Any:
    """Import and return the object named by "module:attribute".

    Raises:
        ImportError: the module does not exist; AttributeError: it has no such attribute.
    """
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def announced(kind: Kind[D]) -> dict[str, D]:
    """Return every announced description that can be used, by name; warn of each other one, naming its distribution.

    Of several that announce a name, this package's own is the one that has it, or else the first.
    """
    found: dict[str, D] = {}
    owners: dict[str, D] = {}
    points = points_of(kind.group)
    for point in sorted(points, key=lambda point: (_about(point.dist)[0] != _OWN, point.name, point.value)):
        distribution, version = _about(point.dist)

        # What it announces, and the rule by which that cannot be used.
        try:
            with redirect_stdout(sys.stderr):  # stdout is for results
                description = point.load()
            rule = kind.wrong_with(description)
        except (Exception, SystemExit) as error:
            rule = error_text(error)
        way_out = f"fix it or uninstall {distribution}"
        if not rule:
            names = [name.casefold() for name in kind.names(description)]
            if taken := [name for name in names if name in owners]:
                rule = f"{kind.word} {taken[0]!r} is announced by {owners[taken[0]].source}, too"
                way_out = "uninstall one of the two or rename it"
        if rule:
            plugin = f"{kind.word} plug-in {point.name} = {point.value} of {distribution}"
            _log.warning("left out: %s", printable(f"{plugin} cannot be used: {rule}; {way_out}"))
            continue
        found[description.name] = replace(description, source=f"{distribution} {version}")
        owners |= dict.fromkeys(names, found[description.name])
    return found


def third_parties() -> dict[str, str]:
    """Return the versions of the distributions that announce plug-ins, without this package's own.

    Where code can change without its version, since it is installed for editing or not installed, its hash follows.
    """
    found: dict[str, str] = {}
    for group in _installed().groups:
        if group.startswith(GROUPS):
            found.update(_about(point.dist) for point in points_of(group))
    found.pop(_OWN, None)
    return found


def points_of(group: str) -> EntryPoints:
    """Return the entry points of a group."""
    points: EntryPoints = _installed().select(group=group)
    return points


@cache
def _about(distribution: Any) -> tuple[str, str]:
    """Name and version of a distribution, for which its whole description is read."""
    name, version = distribution.name, distribution.version
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    is_for_editing = origin.get("dir_info", {}).get("editable", False)
    is_installed = distribution.read_text("INSTALLER") is not None
    if name == _OWN or (is_installed and not is_for_editing):
        return name, version
    points = distribution.entry_points
    packages = {point.module.partition(".")[0] for point in points if point.group.startswith(GROUPS)}
    return name, f"{version} sha256:{code_sha256(packages)[:_DIGITS]}"


def code_sha256(packages: Iterable[str]) -> str:
    """Return the hash of the modules in packages, with their places in these; none is imported."""
    digest = hashlib.sha256()
    for package in sorted(packages):
        spec = find_spec(package)
        places = (spec.submodule_search_locations or [spec.origin or ""]) if spec else []
        for root in map(Path, places):
            files = [root] if root.is_file() else sorted(path for path in root.rglob("*.py") if path.is_file())
            for path in files:
                digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
