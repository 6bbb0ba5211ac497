"""``osmef campaign report``, ``export`` and ``import``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from osmef.cli.campaign_options import CampaignName, StateUrl
from osmef.cli.completion import complete_campaign
from osmef.cli.console import PAGE_HELP, err, out, reporting, set_up_logging
from osmef.units import counted

if TYPE_CHECKING:
    import pandas as pd  # takes a while to load

    from osmef.campaigns.archive import Archived


REPORT_EPILOG = """Examples:

osmef campaign report four-weeks -o four-weeks.html --csv tables

osmef campaign report results/four-weeks --metric rtt_p50_us -o latency.html

osmef campaign report imported --platform-prices prices.csv -o clouds.html

The page needs no network and no other file. A price list has the columns platform and \
usd_per_hour, and swept keys where platforms have several prices."""


def report_command(  # noqa: PLR0913, PLR0917 - what can be asked for
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|DIR",
            autocompletion=complete_campaign,
            help="Name of a campaign, or a directory of runs with sessions.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help=PAGE_HELP)] = Path(
        "report.html"
    ),
    csv: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write every table as CSV, too.", show_default=False),
    ] = None,
    metric: Annotated[
        list[str],
        typer.Option(
            help="Metric to show; may be repeated. By default the main ones.", show_default=False
        ),
    ] = [],  # noqa: B006 - typer copies it
    prices: Annotated[
        Path | None,
        typer.Option(
            "--platform-prices",
            metavar="FILE",
            help="CSV file of prices by platform, instead of recorded ones.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(help="Title of the page. Default: the campaign's name.", show_default=False),
    ] = None,
    state: StateUrl = "",
) -> None:
    """Write one page of a campaign: platforms, sessions, times of day, change over the weeks."""
    set_up_logging(verbose=0)
    with reporting():
        # pandas and matplotlib take a while to load
        from osmef.campaigns.report import campaign_data  # noqa: PLC0415
        from osmef.report.campaign import write_tables  # noqa: PLC0415
        from osmef.report.html.campaign import write_campaign_report  # noqa: PLC0415

        data = campaign_data(name, state, metric, prices)
        write_campaign_report(data, output, title)
        written = write_tables(data, csv) if csv is not None else []
    size = output.stat().st_size / 1e6
    out.print(f"{_counts(data.sessions)}, {size:.1f} MB: {escape(str(output))}")
    if written:
        out.print(f"{counted(len(written), 'table')}: {escape(str(csv))}")


def _counts(sessions: pd.DataFrame) -> str:
    """Return how many sessions of how many platforms; those of one window share their name."""
    each = len(sessions[["session", "platform"]].drop_duplicates())
    platforms = sessions["platform"].nunique()
    return f"{counted(each, 'session')}, {counted(platforms, 'platform')}"


EXPORT_EPILOG = """Examples:

osmef campaign export four-weeks s3://measurements/four-weeks

osmef campaign export four-weeks file:///srv/archive/four-weeks

The URL is one of fsspec; s3 takes credentials and endpoint as every tool of AWS does \
(AWS_PROFILE, AWS_ENDPOINT_URL). Needs: pip install 'osmef\\[archive]'. Exit codes: 0 done, 1 \
runs of sessions are missing in it, 2 there is an archive already, or a run is still measured, 4 \
the store failed."""

IMPORT_EPILOG = """Example:

osmef campaign import s3://measurements/four-weeks results/four-weeks

Every file is checked by its SHA-256 before anything is written. Then every command takes the \
directory: osmef campaign report results/four-weeks."""

Url = Annotated[str, typer.Argument(metavar="URL", help="Where the archive is, such as s3://B/N.")]


def export_command(
    name: CampaignName,
    url: Url,
    state: StateUrl = "",
) -> None:
    """Archive a campaign: one Parquet data set, its runs whole, and a manifest with hashes."""
    with reporting():
        # pandas and pyarrow take a while to load
        from osmef.campaigns.archive import export_campaign  # noqa: PLC0415

        done = export_campaign(name, state, url)
    _notify(done, url)
    if done.wants_secret:
        err.print("the webhook of notify is a secret, and was left out")
    if done.missing:
        lost = f"{counted(len(done.missing), 'session')} that is done has no run directory"
        if len(done.missing) > 1:
            lost = f"{len(done.missing)} sessions that are done have no run directory"
        err.print(f"[yellow]note[/]: {lost}, such as {escape(done.missing[0])}")
        raise typer.Exit(1)


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
    _notify(done, str(directory))
    if done.wants_secret:
        file = escape(str(directory / "campaign.yaml"))
        err.print(f"the webhook of notify is not in it: to measure by {file}, write it there again")


def _notify(done: Archived, where: str) -> None:
    counts = f"{counted(done.runs, 'run')}, {counted(done.files, 'file')}"
    out.print(f"{counts}, {done.size_bytes / 1e6:.1f} MB: {escape(where)}")
