"""The option ``--where``: a filter of trials."""

from __future__ import annotations

from typing import Annotated

import typer

from osmef.cli.completion import complete_where
from osmef.errors import InputError

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="COLUMN=VALUE,...",
        autocompletion=complete_where,
        help="Only trials with one of these values in a column. May be repeated: of one column any"
        " of the values, of several columns all.",
        show_default=False,
    ),
]


def where_of(texts: list[str] | None) -> dict[str, list[str]]:
    """Return the wanted values by column, for ``osmef.report.data.Data``. Raises InputError."""
    found: dict[str, list[str]] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            cure = "write it as that"
            raise InputError(f"{text!r} is not NAME=VALUE", where="--where", cure=cure)
        found.setdefault(name, []).append(value)
    return found
