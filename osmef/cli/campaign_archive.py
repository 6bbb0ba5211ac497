"""``osmef campaign export`` and ``import``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from osmef.cli.campaign_state import CampaignName
from osmef.cli.console import err, out, reporting
from osmef.units import counted

if TYPE_CHECKING:
    from osmef.campaigns.archive import Archived

EXPORT_EPILOG = """Examples:

osmef campaign export four-weeks s3://measurements/four-weeks

osmef campaign export four-weeks file:///srv/archive/four-weeks

The URL is one of fsspec; s3 takes credentials and endpoint as every tool of AWS does \
(AWS_PROFILE, AWS_ENDPOINT_URL). Needs: pip install 'osmef\\[archive]'. Exit codes: 0 done, 2 \
there is an archive already, or a run is still measured, 4 the store failed."""

IMPORT_EPILOG = """Example:

osmef campaign import s3://measurements/four-weeks results/four-weeks

Every file is checked by its SHA-256 before anything is written. Then every command takes the \
directory: osmef campaign report results/four-weeks."""

Url = Annotated[str, typer.Argument(metavar="URL", help="Where the archive is, such as s3://B/N.")]


def export_command(
    name: CampaignName,
    url: Url,
    state: Annotated[
        str,
        typer.Option(
            "--state",
            metavar="URL",
            envvar="OSMEF_STATE",
            help="Database of campaigns, as SQLAlchemy names it; by default SQLite in your home.",
        ),
    ] = "",
) -> None:
    """Archive a campaign: one Parquet data set, its runs whole, and a manifest with hashes."""
    with reporting():
        # pandas and pyarrow take a while to load
        from osmef.campaigns.archive import export_campaign  # noqa: PLC0415

        done = export_campaign(name, state, url)
    _tell(done, url)
    if done.wants_secret:
        err.print("the webhook of notify is a secret, and was left out")


def import_command(
    url: Url,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="New directory for the runs of the archive.")
    ],
) -> None:
    """Take the runs of an archive into a new directory, after checking every hash."""
    with reporting():
        from osmef.campaigns.archive import import_archive  # noqa: PLC0415

        done = import_archive(url, directory)
    _tell(done, str(directory))
    if done.wants_secret:
        file = escape(str(directory / "campaign.yaml"))
        err.print(f"the webhook of notify is not in it: to measure by {file}, write it there again")


def _tell(done: Archived, where: str) -> None:
    counts = f"{counted(done.runs, 'run')}, {counted(done.files, 'file')}"
    out.print(f"{counts}, {done.size_bytes / 1e6:.1f} MB: {escape(where)}")
