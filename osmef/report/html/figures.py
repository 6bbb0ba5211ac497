"""Figures on a page: drawn from runs, as inline SVG, and interactive as Plotly's JSON.

SVG has unique ids, text alternatives, and no bytes that draw nothing. Words are text, not outlines,
which would be most of the bytes of a page. Each is as wide as the layout of the figure has measured
it (``textLength``), whatever font the reader's machine has.

Plotly's basic bundle (https://github.com/plotly/plotly.js, version 4.1.1, MIT licence) is in
``templates/plotly-basic.min.js`` as its makers publish it, with its licence beside it. The keys
here are those of its reference, https://plotly.com/javascript/reference/.
"""

from __future__ import annotations

import io
import json
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from matplotlib.ticker import FixedLocator, FuncFormatter

from osmef.errors import NothingToDrawError
from osmef.files import is_file
from osmef.report.data import Data
from osmef.report.figures import FigureOptions, Possible, possible
from osmef.report.figures import draw as draw_kind
from osmef.report.html.run import ShownRun
from osmef.report.options import FigureKind
from osmef.report.style import METADATA, RC, HouseFigure, width_pt

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_METADATA = f"{{{_SVG}}}metadata"
_HREF = f"{{{_XLINK}}}href"
_URL = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_AROUND_LETTER = re.compile(r"\s*([A-Za-z])\s*")
_PLACES = ("d", "x", "y")  # in points, of which a hundredth can't be seen
_TEXT = f"{{{_SVG}}}text"
_BLANKS = re.compile(r"[ \t\r\n]+")
_TURNED = re.compile(r"rotate\((\S+) (\S+) (\S+)\)")
_FONTS = "'DejaVu Sans',Verdana,sans-serif"  # Verdana is as wide, and on Windows and macOS
_DPI = 150  # of what a figure holds as an image, such as a cloud of points

ElementTree.register_namespace("", _SVG)


def inline_svg(figure: Figure, prefix: str, words: str) -> Markup:
    """Return a figure as an ``svg`` element of a page.

    Its ids begin with ``prefix``, since those of two figures may be the same; ``words`` is its text
    alternative. Its width is that of its place, so that it stays crisp at every size.
    """
    file = io.BytesIO()
    with mpl.rc_context({**RC, "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", dpi=_DPI, metadata=METADATA["svg"])
    root = ElementTree.fromstring(file.getvalue())  # noqa: S314 - matplotlib has just written it
    for element in root.findall(_METADATA):
        root.remove(element)
    for text in root.iter(_TEXT):
        _measure(text)
    _slim(root, prefix)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": words, "font-family": _FONTS}
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - it is escaped XML


def _measure(text: ElementTree.Element) -> None:
    """Give a text the width that it has in the figure's own font, and the shortest attributes."""
    style = dict(one.split(": ", 1) for one in text.attrib.pop("style").split("; "))
    style.pop("font-family")
    size = float(style["font-size"].removesuffix("px"))
    font = FontProperties(
        family=RC["font.family"], weight=style.get("font-weight", "normal"), size=size
    )
    text.text = words = _BLANKS.sub(" ", text.text or "").strip(" ")  # as a browser shows it
    text.attrib |= {**style, "font-size": f"{size:g}"}
    if words:
        width = f"{width_pt(words, font):.1f}"
        text.attrib |= {"textLength": width, "lengthAdjust": "spacingAndGlyphs"}
    turned = _TURNED.fullmatch(text.attrib.get("transform", ""))
    if turned and not float(turned[1]):
        del text.attrib["transform"]


def _slim(root: ElementTree.Element, prefix: str) -> None:
    """Give ids that something refers to short names, and drop all others, and blanks."""
    names: dict[str, str] = {}
    for element in root.iter():
        for key, value in element.attrib.items():
            reported = (
                [value[1:]] if key == _HREF and value.startswith("#") else _URL.findall(value)
            )
            for one in reported:
                names.setdefault(one, f"{prefix}{len(names)}")
    for element in root.iter():
        own = names.get(element.attrib.pop("id", ""))
        if own is not None:
            element.set("id", own)
        for key, value in list(element.attrib.items()):
            if key == _HREF:  # as XML writes it, a browser finds no link in it
                del element.attrib[key]
                is_id = value.startswith("#")
                element.set("href", f"#{names[value[1:]]}" if is_id else value)
            elif "url(#" in value:
                element.set(key, _URL.sub(lambda found: f"url(#{names[found[1]]})", value))
            elif key in _PLACES:
                short = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", value)
                element.set(key, _AROUND_LETTER.sub(r"\1", short))
        element.text = (element.text or "").strip() or None
        element.tail = None


_MOST_POINTS = 30_000
_DASHES = {
    "-": "solid", "--": "dash", ":": "dot", "-.": "dashdot",
    "solid": "solid", "dashed": "dash", "dotted": "dot",
}  # fmt: skip
_SYMBOLS = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down",
    "P": "cross", "X": "x", "|": "line-ns-open", ".": "circle",
}  # fmt: skip
_GAP, _ROW_GAP = 0.09, 0.28  # between panels: of the whole width, of the height of a row
_LINE_GAP = 0.055  # more between rows for each further line of the titles
_TITLE_CHARS = 46  # in a line across the whole figure

Json = dict[str, Any]  # what JSON can hold


def live(figure: Figure) -> Markup | None:
    """Return a figure's data and layout as JSON; None for more than lines and points.

    Bars, maps and drawings of places stay pictures, and so does what has too many points.
    """
    panels = [axes for axes in figure.axes if axes.get_visible()]
    if not panels or any(axes.images or _has_bars(axes) for axes in panels):
        return None
    names = _legend(figure)
    traces = [one for number, axes in enumerate(panels, 1) for one in _traces(axes, number, names)]
    if not traces or sum(len(one["x"]) for one in traces) > _MOST_POINTS:
        return None
    _name_once(traces)
    reported = json.dumps({"data": traces, "layout": _layout(figure, panels)}, allow_nan=False)
    return Markup(reported.replace("<", "\\u003c"))  # noqa: S704 - JSON, and no tag can be in it


def _has_bars(axes: Axes) -> bool:
    return any(not isinstance(one, StepPatch) for one in axes.patches) or not (
        axes.lines or axes.patches
    )


@dataclass(frozen=True)
class _Legend:
    """Legend labels of lines: by colour, dashes and whether they are faint; by colour alone."""

    exact: Mapping[tuple[str, str, bool], str]
    colours: Mapping[str, str]

    def name(self, colour: str, dashes: str, alpha: float | None = None) -> str | None:
        return self.exact.get((colour, dashes, _is_translucent(alpha)), self.colours.get(colour))


def _is_translucent(alpha: float | None) -> bool:
    return alpha is not None and alpha < 1


def _legend(figure: Figure) -> _Legend:
    exact: dict[tuple[str, str, bool], str] = {}
    colours: dict[str, str] = {}
    for legend in figure.legends:
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
            if isinstance(handle, Line2D):
                name, colour = _plain(text.get_text()), _hex(handle.get_color())
                exact.setdefault(
                    (colour, _dashes(handle), _is_translucent(handle.get_alpha())), name
                )
                colours.setdefault(colour, name)
    return _Legend(exact, colours)


def _plain(text: str, between: str = " ") -> str:
    """Escape a text for Plotly, in one line."""
    return escape(text, quote=False).replace("\n", between)


def _hex(colour: Any) -> str:
    """Return a colour of matplotlib as ``#rrggbb``."""
    return to_hex(colour)


def _dashes(line: Line2D) -> str:
    """Return Plotly's name of a line's dashes."""
    pattern = line._dash_pattern[1]  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public function
    if not pattern:
        return "solid" if line.get_linestyle() != "None" else "none"
    if len(pattern) > 2:
        return "dashdot"
    return "dot" if pattern[0] < 2 * line.get_linewidth() else "dash"


@dataclass
class _Bars:
    """Vertical error bars, by colour and position."""

    ends: dict[tuple[str, float], tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, axes: Axes) -> _Bars:
        found = cls()
        for one in axes.collections:
            if isinstance(one, LineCollection):
                for segment in one.get_segments():
                    (x, low), (other, high) = segment[0], segment[-1]
                    if x == other:
                        colour = _hex(one.get_colors()[0])
                        found.ends[colour, _key(x)] = (float(low), float(high))
        return found


def _key(x: float) -> float:
    return float(f"{x:.6g}")


def _traces(axes: Axes, number: int, names: _Legend) -> Iterator[Json]:
    bars, ticks = _Bars.of(axes), _fixed_ticks(axes.xaxis)
    where = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
    yield from ({**where, **one} for one in _bands(axes))
    for line in axes.lines:
        xs, ys = (_numbers(values) for values in (line.get_xdata(), line.get_ydata()))
        colour, dashes = _hex(line.get_color()), _dashes(line)
        if line.get_transform() != axes.transData or not _some(xs, ys):
            continue  # a line across the whole panel, see _across
        if line.get_marker() in {"_", "|"} and dashes == "none":
            continue  # the cap of a bar
        marks = line.get_marker() in _SYMBOLS
        mode = "+".join([*(["lines"] * (dashes != "none")), *(["markers"] * marks)]) or "lines"
        shape = "hv" if line.get_drawstyle() == "steps-post" else "linear"
        is_dot = line.get_marker() == "."  # a single trial, whose interval is that of others
        ends = [None if is_dot else bars.ends.get((colour, _key(x or 0.0))) for x in xs]
        reported = [_hover_text(*one, ticks) for one in zip(xs, ends, strict=True)]
        error = _error(ys, ends, colour)
        yield {
            **where, "type": "scatter", "mode": mode, "x": xs, "y": ys, "text": reported,
            "name": names.name(colour, dashes, line.get_alpha()),
            "line": {"color": colour, "dash": dashes if dashes != "none" else "solid",
                     "width": line.get_linewidth() * 1.3, "shape": shape},
            "marker": {"symbol": _SYMBOLS.get(str(line.get_marker()), "circle"), "color": colour,
                       "size": 4 if is_dot else 7, "opacity": line.get_alpha() or 1.0},
            **({"error_y": error} if error else {}),
        }  # fmt: skip
    for one in axes.patches:
        if isinstance(one, StepPatch) and one.get_fill():
            yield from ({**where, **half} for half in _shading(one))
        elif isinstance(one, StepPatch):
            values, edges, _baseline = one.get_data()
            colour = _hex(one.get_edgecolor())
            dashes = _DASHES.get(str(one.get_linestyle()), "dash")
            ys = _numbers([*values, *values[-1:]])
            yield {
                **where, "type": "scatter", "mode": "lines", "x": _numbers(edges), "y": ys,
                "name": names.name(colour, dashes, one.get_alpha()),
                "opacity": one.get_alpha() or 1.0,
                "line": {"color": colour, "dash": dashes, "shape": "hv",
                         "width": one.get_linewidth() * 1.3},
            }  # fmt: skip
    for cloud in axes.collections:
        if isinstance(cloud, PathCollection):
            spots = np.asarray(cloud.get_offsets())
            colour = _hex(cloud.get_facecolor()[0]) if len(cloud.get_facecolor()) else "#555555"
            yield {
                **where, "type": "scatter", "mode": "markers", "x": _numbers(spots[:, 0]),
                "y": _numbers(spots[:, 1]), "name": names.name(colour, "solid"),
                "marker": {"color": colour, "size": 4, "opacity": 0.45},
            }  # fmt: skip


def _bands(axes: Axes) -> Iterator[Json]:
    """Return the areas between two curves, each as the line around it."""
    for area in axes.collections:
        if isinstance(area, PolyCollection):
            fill, colour = _filling(area.get_facecolor()[0])
            for path in area.get_paths():
                xs, ys = (_numbers(corners) for corners in np.asarray(path.vertices).T)
                yield {
                    "type": "scatter", "mode": "lines", "hoverinfo": "skip", "x": xs, "y": ys,
                    "fill": "toself", "fillcolor": fill, "line": {"color": colour, "width": 0},
                }  # fmt: skip


def _filling(face: Any) -> tuple[str, str]:
    """Return a translucent colour for Plotly, and the opaque one."""
    red, green, blue, alpha = to_rgba(face)
    return f"rgba({255 * red:.0f},{255 * green:.0f},{255 * blue:.0f},{alpha:.2g})", _hex(face)


def _shading(steps: StepPatch) -> Iterator[Json]:
    """Return a shaded area as two invisible lines."""
    values, edges, baseline = steps.get_data()
    fill, colour = _filling(steps.get_facecolor())
    below = np.broadcast_to(np.asarray(baseline, dtype="float64"), np.shape(values))
    for heights, more in ((below, {}), (values, {"fill": "tonexty", "fillcolor": fill})):
        yield {
            "type": "scatter", "mode": "lines", "hoverinfo": "skip", "x": _numbers(edges),
            "y": _numbers([*heights, heights[-1]]), **more,
            "line": {"color": colour, "width": 0, "shape": "hv"},
        }  # fmt: skip


def _across(axes: Axes, number: int) -> Iterator[Json]:
    """Return the reference lines of a panel as shapes."""
    own = "" if number == 1 else str(number)
    ways = (
        (axes.get_yaxis_transform(which="grid"), (f"x{own} domain", f"y{own}")),
        (axes.get_xaxis_transform(which="grid"), (f"x{own}", f"y{own} domain")),
    )
    for line in axes.lines:
        names = next((names for way, names in ways if line.get_transform() == way), None)
        if names is None:
            continue
        ends = [_numbers(values) for values in (line.get_xdata(), line.get_ydata())]
        yield {
            "type": "line", "layer": "below", "xref": names[0], "yref": names[1],
            "x0": ends[0][0], "x1": ends[0][-1], "y0": ends[1][0], "y1": ends[1][-1],
            "line": {"color": _hex(line.get_color()), "width": line.get_linewidth(),
                     "dash": _dashes(line)},
        }  # fmt: skip


def _numbers(values: Any) -> list[float | None]:
    """Return numbers for JSON; a gap is null."""
    found: npt.NDArray[np.float64] = np.ma.filled(np.ma.asarray(values, dtype="float64"), np.nan)
    return [float(f"{one:.6g}") if math.isfinite(one) else None for one in found]


def _some(*each: Sequence[float | None]) -> bool:
    return all(any(value is not None for value in values) for values in each)


def _hover_text(
    x: float | None, ends: tuple[float, float] | None, ticks: Mapping[float, str]
) -> str:
    """Return the hover text: category, and interval."""
    category = (
        ""
        if x is None
        else next(
            (text for at, text in ticks.items() if abs(at - x) <= 0.13 * abs(at or 1)), f"{x:.4g}"
        )
    )
    interval = f"<br>{ends[0]:.4g} to {ends[1]:.4g}" if ends else ""
    return f"{_plain(category, ', ')}{interval}"


def _error(
    ys: Sequence[float | None], ends: Sequence[tuple[float, float] | None], colour: str
) -> Json | None:
    if not any(ends):
        return None
    both = [
        (high - y, y - low) if one and y is not None else (0.0, 0.0)
        for y, one in zip(ys, ends, strict=True)
        for low, high in [one or (0.0, 0.0)]
    ]
    up, down = zip(*both, strict=True)
    return {
        "type": "data", "symmetric": False, "array": [max(0.0, float(one)) for one in up],
        "arrayminus": [max(0.0, float(one)) for one in down], "color": colour, "thickness": 1.2,
        "width": 3,
    }  # fmt: skip


def _name_once(traces: Sequence[Json]) -> None:
    """Show each name once in the legend, as a group, by the trace that is seen best."""
    seen: dict[str, Json] = {}
    for trace in traces:
        name = trace.pop("name", None)
        if "hoverinfo" in trace:
            trace["showlegend"] = False
            continue
        own = f"<b>{name}</b><br>" if name else ""
        trace["hovertemplate"] = f"{own}%{{text}}<br>%{{y:.4~g}}<extra></extra>"
        if "text" not in trace:
            trace["hovertemplate"] = f"{own}%{{x:.4~g}}: %{{y:.4~g}}<extra></extra>"
        trace["showlegend"] = False
        if name:
            trace |= {"name": name, "legendgroup": name}
            known = seen.setdefault(name, trace)
            if _strength(trace) > _strength(known):
                seen[name] = trace
    for trace in seen.values():
        trace["showlegend"] = True


def _strength(trace: Json) -> tuple[bool, float]:
    """Return how well a trace is seen: whether it is opaque, and how wide its line is."""
    points = trace["mode"] == "markers"
    is_faint = points and _is_translucent(trace["marker"].get("opacity"))
    width = 0.0 if points else float(trace["line"]["width"])
    return not (is_faint or _is_translucent(trace.get("opacity"))), width


def _layout(figure: Figure, panels: Sequence[Axes]) -> Json:
    """Return axes and titles, with the panels placed as in the figure."""
    grid = [_grid_position(axes) for axes in panels]
    rows, columns = (1 + max(one[at] for one in grid) for at in (0, 1))
    names = [_title_lines(axes, columns) for axes in panels]
    lines = max(1, *map(len, names))
    row_gap = _ROW_GAP + _LINE_GAP * (lines - 1)
    layout: Json = {"annotations": [], "meta": {"rows": rows, "title_lines": lines}}
    layout["shapes"] = [one for at, axes in enumerate(panels, 1) for one in _across(axes, at)]
    shared = figure.get_supylabel()
    for number, (axes, (row, column)) in enumerate(zip(panels, grid, strict=True), start=1):
        left, right = _span(column, columns, _GAP)
        bottom, top = (1 - end for end in reversed(_span(row, rows, row_gap / rows)))
        own = "" if number == 1 else str(number)
        layout[f"xaxis{own}"] = {
            **_axis(axes.xaxis), "domain": [left, right], "anchor": f"y{number}",
        }  # fmt: skip
        layout[f"yaxis{own}"] = {
            **_axis(axes.yaxis, shared if column == 0 else ""), "domain": [bottom, top],
            "anchor": f"x{number}",
        }  # fmt: skip
        if title := "<br>".join(names[number - 1]):
            layout["annotations"].append(
                {"text": title, "align": "left", "x": left, "y": top, "xref": "paper",
                 "yref": "paper", "xanchor": "left", "yanchor": "bottom", "showarrow": False}
            )  # fmt: skip
    return layout


def _title_lines(axes: Axes, columns: int) -> list[str]:
    """Return the title of a panel, escaped, in lines that fit it on a phone, too."""
    title = " ".join(axes.get_title("left").split())
    return [_plain(line) for line in textwrap.wrap(title, _TITLE_CHARS // columns)]


def _grid_position(axes: Axes) -> tuple[int, int]:
    """Return the row and column of a panel."""
    spec = axes.get_subplotspec()
    return (spec.rowspan.start, spec.colspan.start) if spec else (0, 0)


def _span(number: int, count: int, gap: float) -> tuple[float, float]:
    """Return begin and end of one of so many panels, from 0 to 1."""
    size = (1 - gap * (count - 1)) / count
    begin = number * (size + gap)
    return begin, begin + size


def _axis(axis: Axis, label: str = "") -> Json:
    low, high = (float(end) for end in axis.get_view_interval())
    is_log = axis.get_scale() == "log"
    found: Json = {
        "title": {"text": _plain(axis.get_label().get_text() or label)},
        "type": "log" if is_log else "linear",
        "range": [math.log10(end) if is_log else end for end in (low, high)],
    }
    if is_log or _has_words(axis):
        texts = _ticks(axis)
        found |= {
            "tickvals": list(texts),
            "ticktext": [escape(t, quote=False).replace("\n", "<br>") for t in texts.values()],
        }
    return found


def _has_words(axis: Axis) -> bool:
    """Return whether ticks are categories, or numbers with units of their own, such as 100 kB."""
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    return isinstance(locator, FixedLocator) or isinstance(formatter, FuncFormatter)


def _ticks(axis: Axis) -> dict[float, str]:
    """Return the positions and labels of an axis's ticks."""
    low, high = sorted(axis.get_view_interval())
    ticks = [float(one) for one in axis.get_majorticklocs() if low <= one <= high]
    return dict(zip(ticks, axis.get_major_formatter().format_ticks(ticks), strict=True))


def _fixed_ticks(axis: Axis) -> dict[float, str]:
    """Return the labels of a categorical axis, such as of distances."""
    fixed = isinstance(axis.get_major_locator(), FixedLocator)
    words = fixed and isinstance(axis.get_major_formatter(), FuncFormatter)
    return {at: text for at, text in _ticks(axis).items() if text} if words else {}


_MOST_BYTES = 2_000_000
_MOST_CELLS = 300  # a figure of more shows nothing, and takes minutes
_FEW_CELLS = 12  # of which single trials and intervals can be distinguished
_FEWEST = 6  # trials of a cell of which the distribution says more than their median
_MOST_TRIALS = 2000  # each of which is read as a whole for its pairs
_MOST_INTERVALS_BYTES = 24_000_000  # a million rows, which take some seconds


@dataclass(frozen=True)
class Drawn:
    """A figure: its name, its title, and itself, None if it is too large for a page.

    ``live`` are its data for Plotly, None where it is a picture only. ``caption`` says what its
    marks mean.
    """

    name: str
    title: str
    svg: Markup | None
    live: Markup | None = None
    caption: str = ""

    @classmethod
    def both(cls, name: str, title: str, svg: Markup, figure: Figure) -> Drawn:
        """Return a figure as a picture, and interactive where that is possible."""
        caption = figure.caption if isinstance(figure, HouseFigure) else ""
        return cls(name, title, svg, live(figure), caption)


def draw_run(reading: ShownRun, *, whole: bool) -> Iterator[Drawn]:
    """Draw the informative figures of a run; none for many cells.

    These are those that are in its directory, and with ``whole`` those of ``_further_kinds``.
    """
    data = Data(reading.path)
    if not reading.trials or data.trials["cell"].nunique() > _MOST_CELLS:
        return
    prefix, where = f"r{reading.number}", "of this run"
    for one in possible(data, own=True):
        yield _drawn(one, prefix, where)
    if whole:
        yield from draw(data, _further_kinds(data), prefix, where)


def _further_kinds(data: Data) -> Iterator[FigureKind]:
    """Yield further informative kinds of figures for a run, within the page's bounds."""
    trials = data.trials
    cells = trials.groupby("cell")
    if "connections" in trials and trials["connections"].nunique() > 1:
        yield from (FigureKind.FAIRNESS, FigureKind.CPU)
    if len(trials) <= _MOST_TRIALS:
        yield FigureKind.TOPOLOGY
    if len(cells) > _FEW_CELLS:
        return
    files = [run.intervals for run in data.runs if is_file(run.intervals)]
    if sum(file.stat().st_size for file in files) <= _MOST_INTERVALS_BYTES:
        yield FigureKind.INTERVALS
    if cells.size().max() >= _FEWEST:
        yield FigureKind.ECDF


def draw(data: Data, kinds: Iterable[FigureKind], prefix: str, where: str) -> Iterator[Drawn]:
    """Draw the kinds of figures for which there is data."""
    for kind in kinds:
        try:
            figure = draw_kind(kind, data, FigureOptions())
        except NothingToDrawError:
            continue
        yield _drawn(Possible(kind.value, kind.about, figure), prefix, where)


def _drawn(one: Possible, prefix: str, where: str) -> Drawn:
    title = f"{one.about[0].upper()}{one.about[1:]}"
    words = f"{title}. The numbers are in the tables {where}."
    svg = inline_svg(one.figure, f"{prefix}-{one.name}-", words)
    if len(svg) > _MOST_BYTES:
        return Drawn(one.name, title, None)
    return Drawn.both(one.name, title, svg, one.figure)
