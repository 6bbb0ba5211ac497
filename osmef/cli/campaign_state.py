"""The option ``--state``: the database of campaigns."""

from __future__ import annotations

from typing import Annotated

import typer

from osmef.cli.completion import complete_campaign

STATE = "OSMEF_STATE"
"""The variable of the environment that names it."""

CampaignName = Annotated[
    str,
    typer.Argument(help="Name of a campaign.", metavar="NAME", autocompletion=complete_campaign),
]

StateUrl = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="URL",
        envvar=STATE,
        help="Database of campaigns, as SQLAlchemy names it; by default SQLite in your home.",
    ),
]
