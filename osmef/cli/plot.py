"""``osmef plot``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.models import OptionInfo

from osmef.cli.completion import complete_metric, complete_run
from osmef.cli.console import (
    Where,
    note_left_out,
    note_trial_counts,
    out,
    read_percent,
    reporting,
    set_up_logging,
    where_of,
)
from osmef.errors import InputError
from osmef.report.options import FigureKind
from osmef.scenario.names import did_you_mean
from osmef.scenario.text_file import read_nodes, read_text

_KINDS = "\n\n".join(f"{kind.value}: {kind.about}" for kind in FigureKind)

PLOT_EPILOG = f"""Kinds:

{_KINDS}

Examples:

osmef plot btc-connections results/vm-* -o btc.svg

osmef plot pingpong-transfer RUN --relative --reference bare --interval -o docker.pdf

osmef plot cov results/aws-* results/gce-* --metric aggregate_btc_bps -o cov.png

osmef plot intervals RUN --where connections=1,10 --y-max 10 --title "Shaped?" -o rates.svg

In Python: osmef.report.figures.figure("btc-connections", "results/vm-*")"""

ENDINGS = (".svg", ".png", ".pdf")


def _option(text: str, panel: str, *names: str, **more: Any) -> OptionInfo:
    """Return an option that has no default to show."""
    option: OptionInfo = typer.Option(
        *names, help=text, rich_help_panel=panel, show_default=False, **more
    )
    return option


_DATA, _AXES, _WORDS, _MESSAGES = "Data", "Axes", "Text and size", "Ping-pong"
_PINGPONG = (
    FigureKind.PINGPONG_TRANSFER,
    FigureKind.PINGPONG_LATENCY,
    FigureKind.PINGPONG_REQUESTS,
)
_WITH_AXES = tuple(kind for kind in FigureKind if kind not in {"limits", "topology", "similarity"})
_ONLY: dict[str, tuple[FigureKind, ...]] = {
    "metric": (
        FigureKind.LAYERS,
        FigureKind.ECDF,
        FigureKind.SESSIONS,
        FigureKind.COV,
        FigureKind.PRICE,
    ),
    "whole": (FigureKind.CPU,),
    "prices": (FigureKind.PRICE,),
    "flavor": (FigureKind.PRICE,),
    **dict.fromkeys(("relative", "reference", "points", "bands", "interval"), _PINGPONG),
    **dict.fromkeys(("window", "bins", "alpha"), _PINGPONG),
    **dict.fromkeys((f"{axis}_{what}" for axis in "xy" for what in ("min", "max", "log", "ticks")),
                    _WITH_AXES),
}  # fmt: skip
"""The options that not every kind has, and the kinds that have them."""


def _kind(text: str) -> FigureKind:
    """Return a kind by its name."""
    found = next((one for one in FigureKind if one == text), None)
    if found is None:
        kinds = [one.value for one in FigureKind]
        hint = did_you_mean(text, kinds, kinds)
        raise typer.BadParameter(f"there is no figure {text!r}; {hint}")
    return found


def _kinds(begin: str) -> list[str]:
    return [one.value for one in FigureKind if one.startswith(begin)]


# The options of the command, by the names of its arguments.
_KindOf = Annotated[
    FigureKind,
    typer.Argument(
        metavar="KIND", help="What to draw, see below.", parser=_kind, autocompletion=_kinds
    ),
]
_Runs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="RUNS",
        autocompletion=complete_run,
        help="Run directories, directories of runs, or patterns. For similarity also a CSV file of"
        " measurements, as osmef similarity takes it.",
        show_default=False,
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        show_default=False,
        help="Where to write it: .svg, .png or .pdf; KIND.svg here without it.",
    ),
]
_Metric = Annotated[
    list[str] | None,
    _option(
        "Metric to draw, with layers, ecdf, sessions and price; with cov several.",
        _DATA,
        autocompletion=complete_metric,
    ),
]
_Whole = Annotated[
    bool,
    _option(
        "With cpu: the load of whole endpoints, not of the threads that move data.",
        _DATA,
        "--whole-endpoint",
    ),
]
_Prices = Annotated[
    Path | None,
    _option(
        "With price: a price list, YAML or CSV, instead of the recorded prices.",
        _DATA,
        metavar="FILE",
    ),
]
_Flavor = Annotated[
    str | None,
    _option(
        "With price: the column that holds the flavor. Default: sender_flavors.",
        _DATA,
        metavar="COLUMN",
    ),
]
_Relative = Annotated[
    bool,
    _option("Draw the ratio to a reference, by default the first series.", _MESSAGES, "--relative"),
]
_Reference = Annotated[
    str | None,
    _option(
        "Draw the ratio to this series; its name or a part of it.", _MESSAGES, metavar="SERIES"
    ),
]
_Points = Annotated[
    bool | None,
    _option(
        "Draw single requests. Default: with up to four series.",
        _MESSAGES,
        "--points/--no-points",
    ),
]
_Bands = Annotated[
    str | None,
    _option(
        "Percentile bands, such as 50,90 for the middle 50 % and 90 % of the data; `none`"
        " for none. Default: 50,90 with up to four series.",
        _MESSAGES,
        metavar="PERCENT,...",
    ),
]
_Interval = Annotated[
    bool, _option("Draw the 95 % interval of each median or ratio.", _MESSAGES, "--interval")
]
_Window = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="BYTES",
        rich_help_panel=_MESSAGES,
        help="Mark multiples of this TCP window; 0 for no marks.",
    ),
]
_Bins = Annotated[
    int,
    typer.Option(min=1, rich_help_panel=_MESSAGES, help="Number of bins of the message size."),
]
_Alpha = Annotated[
    float | None,
    _option("Opacity of points, from 0 to 1.", _MESSAGES, min=0, max=1),
]
_XMin = Annotated[float | None, _option("Start of the x axis.", _AXES)]
_XMax = Annotated[float | None, _option("End of the x axis; message sizes in bytes.", _AXES)]
_YMin = Annotated[float | None, _option("Start of the y axis.", _AXES)]
_YMax = Annotated[float | None, _option("End of the y axis, in the unit of its label.", _AXES)]
_XLog = Annotated[
    bool | None, _option("Logarithmic or linear x axis.", _AXES, "--x-log/--x-linear")
]
_YLog = Annotated[
    bool | None, _option("Logarithmic or linear y axis.", _AXES, "--y-log/--y-linear")
]
_XTicks = Annotated[int | None, _option("Approximate number of ticks on the x axis.", _AXES, min=1)]
_YTicks = Annotated[int | None, _option("Approximate number of ticks on the y axis.", _AXES, min=1)]
_Title = Annotated[str | None, _option("Title of the figure.", _WORDS)]
_XLabel = Annotated[str | None, _option("Label of the x axis.", _WORDS)]
_YLabel = Annotated[str | None, _option("Label of the y axis.", _WORDS)]
_Name = Annotated[
    list[str] | None,
    _option(
        "Rename a series, or a value in its name. May be repeated.",
        _WORDS,
        metavar="OLD=NEW",
    ),
]
_Names = Annotated[
    Path | None,
    _option(
        "Rename many: a JSON or YAML file that maps old names to new ones.",
        _WORDS,
        metavar="FILE",
    ),
]
_Legend = Annotated[bool, _option("Draw a legend.", _WORDS, "--legend/--no-legend")]
_Width = Annotated[float | None, _option("Width in inches.", _WORDS, min=1, max=100)]
_Height = Annotated[float | None, _option("Height in inches.", _WORDS, min=1, max=100)]


def plot_command(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    context: typer.Context, kind: _KindOf, runs: _Runs = None, output: _Output = None,
    where: Where = None, metric: _Metric = None, whole: _Whole = False, prices: _Prices = None,
    flavor: _Flavor = None, relative: _Relative = False,
    reference: _Reference = None, points: _Points = None, bands: _Bands = None,
    interval: _Interval = False, window: _Window = 87380, bins: _Bins = 50,
    alpha: _Alpha = None, x_min: _XMin = None, x_max: _XMax = None, y_min: _YMin = None,
    y_max: _YMax = None, x_log: _XLog = None, y_log: _YLog = None, x_ticks: _XTicks = None,
    y_ticks: _YTicks = None, title: _Title = None, x_label: _XLabel = None,
    y_label: _YLabel = None, name: _Name = None, names: _Names = None, legend: _Legend = True,
    width: _Width = None, height: _Height = None,
) -> None:  # fmt: skip
    """Draw a figure of runs."""
    path = output or Path(f"{kind.value}.svg")
    set_up_logging(verbose=0)
    with reporting():
        _check_options(context, kind)
        _check_ending(path)
        # matplotlib and pandas take a while to load
        from osmef.report.data import Data  # noqa: PLC0415
        from osmef.report.figures import FigureOptions, draw  # noqa: PLC0415
        from osmef.report.machine_types import table_among  # noqa: PLC0415
        from osmef.report.options import Look  # noqa: PLC0415
        from osmef.report.pingpong import Messages  # noqa: PLC0415
        from osmef.report.style import write  # noqa: PLC0415

        machines = table_among(runs or []) if kind is FigureKind.SIMILARITY else None
        look = Look(
            title=title, names=_names(name or [], names), legend=legend, x_label=x_label,
            y_label=y_label, x_min=x_min, x_max=x_max, y_min=y_min, y_max=y_max, x_log=x_log,
            y_log=y_log, x_ticks=x_ticks, y_ticks=y_ticks, width=width, height=height,
        )  # fmt: skip
        messages = Messages(
            relative=relative or reference is not None, reference=reference, points=points,
            bands=None if bands is None else _bands(bands), interval=interval, window=window,
            bins=bins, alpha=alpha,
        )  # fmt: skip
        wanted = FigureOptions(
            look=look, messages=messages, whole=whole, metrics=metric or (), prices=prices,
            flavor=flavor or "sender_flavors", machines=machines,
        )  # fmt: skip
        components = kind is FigureKind.SIMILARITY
        data = Data(*([] if machines else runs or []), where=where_of(where), components=components)
        note_trial_counts(data.runs if runs and not machines else ())
        note_left_out((runs or ()) if not machines else ())
        figure = draw(kind, data, wanted)
        _check_names(name or [], look.known)
        write(figure, path)
    out.print(f"figure: {escape(str(path))}")


def _check_ending(path: Path) -> None:
    """Raise InputError for a file type without a writer."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(
            f"a figure can't be written as {path.name}",
            where="--output",
            cure=f"let the name end with one of {', '.join(ENDINGS)}",
        )


def _check_options(context: typer.Context, kind: FigureKind) -> None:
    """Raise InputError for an option without effect on this kind of figure."""
    flags = {param.name: param.opts[0] for param in context.command.params}
    for name, kinds in _ONLY.items():
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and kind not in kinds:
            raise InputError(
                f"the figure {kind} has nothing for this option",
                where=flags[name],
                cure=f"leave it out; it is for {', '.join(kinds)}",
            )


def _pairs(texts: list[str], option: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{text!r} is not NAME=VALUE", where=option, cure="write it as that")
        found[name] = value
    return found


def _check_names(texts: list[str], known: Iterable[str]) -> None:
    """Raise InputError for a name that no series of the drawn figure has; a file may have more."""
    for old in _pairs(texts, "--name"):
        if old not in known:
            cure = did_you_mean(old, known, map(repr, known))  # they have commas
            raise InputError(f"no series is called {old!r}", where="--name", cure=cure)


def _names(texts: list[str], file: Path | None) -> dict[str, str]:
    """Return the new names by the old ones; a file of ppbench has one more level."""
    return {**(_read_names(file) if file else {}), **_pairs(texts, "--name")}


def _read_names(file: Path) -> dict[str, str]:
    try:
        node, builder = read_nodes(read_text(file), file)
    except InputError as error:
        if error.problems:
            raise
        raise _no_names(file, error.message) from error
    if builder.problems:
        raise InputError.from_problems(builder.problems)
    reported = None if node is None else node.plain()
    if not isinstance(reported, dict):
        raise _no_names(file, "it is no mapping")
    parts = [value if isinstance(value, dict) else {key: value} for key, value in reported.items()]
    return {str(old): str(new) for part in parts for old, new in part.items()}


def _no_names(file: Path, why: str) -> InputError:
    cure = "give a JSON or YAML file that maps old names to new ones"
    return InputError(f"can't read the names: {why}", where=str(file), cure=cure)


def _bands(text: str) -> tuple[float, ...]:
    if text == "none":
        return ()
    try:
        found = tuple(read_percent(part) for part in text.split(","))
    except typer.BadParameter:
        found = (0.0,)
    if not all(0 < band < 100 for band in found):
        raise InputError(
            f"{text!r} are no bands",
            where="--bands",
            cure="write percents above 0 and below 100 with commas between, or `none`",
        )
    return found
