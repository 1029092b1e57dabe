"""Sentences from templates, each whole in one place."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tread_bench.reports.text.numbers import decimals, interval, millions, names, number, plural, ratio, words


def say(template: str, macro: str, **context: Any) -> str:
    """Return one sentence, or the end of one, which is a macro of a template of this folder; line breaks are spaces."""
    said: str = getattr(_templates().get_template(f"{template}.txt.j2").module, macro)(**context)
    return " ".join(said.split())


def texts_of(template: str, **context: Any) -> dict[str, str]:
    """Return the texts that a template of this folder sets, by the names that it gives them; line breaks are spaces."""
    found = vars(_templates().get_template(template).make_module(context))
    return {name: " ".join(text.split()) for name, text in found.items() if name[0] != "_" and isinstance(text, str)}


def sentence(text: str) -> str:
    """Return clauses as a sentence, with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


FILTERS = {one.__name__: one for one in (decimals, interval, millions, names, number, plural, ratio, sentence, words)}


@cache
def _templates() -> Environment:
    """The templates of this folder, with the filters that they use."""
    environment = Environment(
        loader=PackageLoader("tread_bench.reports", "text"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return environment
