"""Plug-ins: descriptions found through entry points, and code named as text, "module:attribute".

A description is small and torch-free, so that listing, validating and planning stay instant; what it describes is named
as text and imported when needed. The package's own plug-ins are found in the same way as a third party's.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from importlib.metadata import Distribution, EntryPoint, EntryPoints, entry_points
from types import NoneType, UnionType
from typing import Any, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints

from tread_bench.core.errors import UserError, error_text, printable
from tread_bench.core.names import unknown
from tread_bench.core.problems import Problem, shortened
from tread_bench.core.signals import ctrl_c

_OWN = "tread-bench"  # name of this package's distribution
GROUPS = "tread_bench."  # common prefix of all entry point groups
_CODE = ("builder", "check_all", "check_files", "extra_cost", "ranking")  # fields that name code as text
_OWN_RULE = (type, float, UnionType)  # types of fields that are checked by their kind, if at all

_log = logging.getLogger(__name__)  # warnings go to stderr unless the user has set a handler
_installed = cache(entry_points)  # one look at what is installed serves every kind of plug-in


class Description(Protocol):
    """What a plug-in announces."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str:
        """Distribution that announces it; empty until it is found."""
        ...


D = TypeVar("D", bound=Description)


@dataclass(frozen=True, eq=False)
class Kind(Generic[D]):
    """A kind of plug-in.

    Args:
        word: its name in messages.
        group: entry point group that announces it.
        of: class of its descriptions.
        rule: returns the rule of this kind that a description breaks; empty if none.
        options: base class of its descriptions' options; None: they have none.
        names: all names by which a description is found.
        key: the key of a suite that names one; empty: its word.
    """

    word: str
    group: str
    of: type[D]
    rule: Callable[[D], str] = lambda description: ""
    options: type | None = None
    names: Callable[[D], Iterable[str]] = lambda description: (description.name,)
    key: str = ""

    @cache  # noqa: B019  # a kind lives as long as the process
    def all(self) -> dict[str, D]:
        """Return every announced description that can be used, by name."""
        return announced(self)

    def find(self, name: str) -> D:
        """Return the description of that name. Raises ValueError."""
        known = self.all()
        if name not in known:
            raise ValueError(unknown(self.key or self.word, name, known))
        return known[name]

    def wrong_with(self, description: Any) -> str:
        """Return the rule that a description breaks; empty if none."""
        if not isinstance(description, self.of):
            return f"{type(description).__name__} is not a tread_bench.{self.of.__name__}"
        try:
            names = list(self.names(description))
        except Exception as error:
            return f"its names cannot be read ({error_text(error)})"
        if not all(isinstance(name, str) and name and name.isprintable() for name in names):
            return "its name, and every other name that it is found by, must be printable text"
        if self.options is not None and (wrong := wrong_options(description, self.options)):
            return wrong
        return wrong_types(description, self.of) or self.rule(description)


def named(target: str) -> Any:
    """Import and return the object named by "module:attribute".

    Raises:
        ImportError: the module does not exist; AttributeError: it has no such attribute.
    """
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def announced(kind: Kind[D]) -> dict[str, D]:
    """Return every announced description that can be used, by name; warn of each other one, naming its distribution.

    If several distributions announce a name, it is this package's own if that is one of them, and otherwise left out.

    Raises:
        UserError: this package's own are missing, since it was installed before they were announced.
    """
    if kind.group not in _own_groups():
        rule = f"this installation of {_OWN} is older than its code: it announces nothing as {kind.group}"
        raise UserError(f"{rule}; install it again, in a checkout by pip install -e .")

    # Load what is announced, and note who claims which name.
    points = sorted(points_of(kind.group), key=lambda point: (point.name, point.value))
    loaded = [(point, description) for point in points if (description := _loaded(point, kind)) is not None]
    claims: dict[str, list[tuple[EntryPoint, D]]] = {}
    for point, description in loaded:
        for name in {name.casefold() for name in kind.names(description)}:
            if all(description != other for _, other in claims.get(name, ())):
                claims.setdefault(name, []).append((point, description))

    # Leave out third-party claims to a name that is claimed twice.
    left_out = set()
    for name, claimed in claims.items():
        foreign = [description for point, description in claimed if not _is_own(point)] if len(claimed) > 1 else []
        if foreign:
            left_out |= {id(description) for description in foreign}
            sources = " and by ".join(description.source for _, description in claimed)
            _warn(f"{kind.word} {name!r} is announced twice: by {sources}; uninstall one of the two or rename it")
    return {description.name: description for _, description in loaded if id(description) not in left_out}


def _loaded(point: EntryPoint, kind: Kind[D]) -> D | None:
    """Load what a plug-in announces; warn and return None if it is not a usable description."""
    plugin = f"{kind.word} plug-in {point.name} = {point.value} of {_owner(point)}"
    without_torch = "torch" not in sys.modules
    try:
        with redirect_stdout(sys.stderr):  # stdout is for results
            description = point.load()
    except BaseException as error:  # a plug-in may fail in any way, and may call sys.exit
        if ctrl_c.caused(error):
            raise
        what, way_out = error_text(error), f"fix it or uninstall {_owner(point)}"
        if "partially initialized" in what:  # it imports code that looks up all plug-ins, itself included
            way_out = f"keep the description in a module of its own, without what needs torch; {way_out}"
        _warn(f"{plugin} cannot be imported ({what}); {way_out}")
        return None
    if without_torch and "torch" in sys.modules:
        rule = "every command imports it, so a description must not; name what needs torch as text, in builder"
        _log.warning("slow: %s imports torch: %s", printable(plugin), rule)
    if wrong := kind.wrong_with(description):
        _warn(f"{plugin} cannot be used: {wrong}; fix it or uninstall {_owner(point)}")
        return None
    if not description.source:
        source = " ".join(_about(point.dist)) if point.dist else point.value
        object.__setattr__(description, "source", source)  # set once; `compare=False` keeps identity unaffected
    return description


def points_of(group: str) -> EntryPoints:
    """Return the entry points of a group."""
    return _installed().select(group=group)


def by_name(plugin: D | str, find: Callable[[str], D]) -> D:
    """Return a description, found by its name where that is given. Raises ValueError."""
    return find(plugin) if isinstance(plugin, str) else plugin


@cache
def _own_groups() -> tuple[str, ...]:
    """Return this package's entry point groups; warn, once, of others that start with our prefix."""
    installed = {point for distribution in metadata.distributions() for point in distribution.entry_points}
    points = {point for point in installed if point.group.replace("-", "_").startswith(GROUPS)}
    own = sorted({point.group for point in points if point.group.startswith(GROUPS) and _is_own(point)})
    for point in sorted(points, key=str):
        if point.group not in own:
            plugin = f"{point.name} = {point.value} of {_owner(point)}"
            _warn(f"{plugin}: {unknown('entry point group', point.group, own)}")
    return tuple(own)


def wrong_types(description: Any, annotated: type) -> str:
    """Return the rule by which a field's type cannot be used, as the class annotates it; empty if all can.

    Fields that may be of one of several types have rules of their own.
    """
    for name, hint in _type_hints(annotated).items():
        value, of = getattr(description, name), get_origin(hint) or hint
        may_be_none = NoneType in get_args(hint)
        if name in _CODE:
            fits = (isinstance(value, str) and all(value.partition(":"))) or (value is None and may_be_none)
            kind = "the text 'module:attribute'"
        else:
            fits = of in _OWN_RULE or isinstance(value, of)
            kind = _with_article(of)
        if not fits:
            return f"its {name} must be {kind}, not {shortened(value)}"
    return ""


_type_hints = cache(get_type_hints)


def _with_article(of: type) -> str:
    of_us = "tread_bench." if of.__module__.startswith("tread_bench.") else ""
    name = f"{of_us}{of.__name__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def wrong_options(description: Any, base: type) -> str:
    """Return the rule by which the options cannot be used; empty if they can."""
    options, name = description.options, description.name
    if not (isinstance(options, type) and issubclass(options, base)):
        return f"its options must be a subclass of tread_bench.{base.__name__}"
    field = options.model_fields["name"]  # type: ignore[attr-defined]
    if get_args(field.annotation) != (name,) or field.default != name:
        return f"its options must have the field name: Literal[{name!r}] = {name!r}"
    return ""


def is_own(description: Description) -> bool:
    """Return whether this package itself announces it."""
    return description.source.startswith(f"{_OWN} ")


def problems_found(description: Any, *arguments: Any) -> list[Problem]:
    """Return what a description's own `check` finds; if a third party's check fails, that is the problem."""
    try:
        problems = list(description.check(*arguments))
        if others := [one for one in problems if not isinstance(one, Problem)]:
            raise TypeError(f"{shortened(others[0])} is not a tread_bench.Problem")
    except Exception as error:
        if is_own(description):
            raise
        what = f"{description.name}: the check of its plug-in fails ({error_text(error)})"
        return [Problem(f"{what}; fix or uninstall {description.source}")]
    return problems


def _owner(point: EntryPoint) -> str:
    return _about(point.dist)[0] if point.dist else point.value


@cache
def _about(distribution: Distribution) -> tuple[str, str]:
    """Name and version of a distribution, for which its whole description is read."""
    return distribution.name, distribution.version


def _is_own(point: EntryPoint) -> bool:
    return _owner(point) == _OWN


def _warn(text: str) -> None:
    _log.warning("left out: %s", printable(text))
