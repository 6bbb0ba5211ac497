"""House style of figures: readable in print, in grey, and by the colour-blind."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

from osmef.errors import NothingToDrawError
from osmef.report.options import Look
from osmef.results.files import write_atomically

# Okabe and Ito, "Color Universal Design", 2008, without the yellow, which is too light on paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.4, 1.2, 1.4)))
HATCHES = ("", "///", "...", "\\\\\\", "xx", "--", "oo")
GREY = "#555555"
EDGE = "#333333"

_SMALL = 8
_SCREEN_DPI = 120  # of a notebook, whose file holds the picture
_NO_LETTER = "Glyph .* missing from font"

# Any: what the keys are typed as depends on matplotlib's version.
RC: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that figures look alike everywhere
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": _SMALL,
    "lines.linewidth": 1.4,
    "lines.markersize": 5.5,
    "lines.markeredgewidth": 0.5,
    "savefig.dpi": 200,
    "text.parse_math": False,  # a name may hold dollar signs
    "svg.hashsalt": "osmef",  # instead of a random one
}

_COLUMN_INCHES = 4.5
"""Narrower figures are for a column of a journal, whose text has title, caption and source."""
_TINY = 7
_UPRIGHT_LETTERS = 20  # of a label beside a panel of such a figure
_ROW_INCHES = 1.6  # of its panels, where there are several
_TITLE_INCHES = 0.2
_LEGEND_ROW_INCHES = 0.155
_FOOT_ROW_INCHES = 0.13
_HANDLE_INCHES = 0.5
_BAR_LETTERS = 46
_LEAST_COLUMN_INCHES = 1.3  # of each panel in a column of a journal
_LEAST_INCHES = 1.7  # of panels, below which their words lie over each other
LINE_INCHES = 0.13
"""Of the names of bars, how high one is."""
MOST_BARS = 300
"""Cells with a bar each; more are unreadable, and take minutes to draw."""

P = ParamSpec("P")
T = TypeVar("T")


class HouseFigure(Figure):
    """A figure in the house style, wherever it is drawn.

    ``caption`` says what its marks mean, also where the figure itself has no text for it.
    """

    caption = ""

    def draw(self, renderer: RendererBase) -> None:
        """Draw it as matplotlib does; a character without glyph is a box."""
        for axes in self.axes if self.get_figwidth() < _COLUMN_INCHES else ():
            _break(axes.yaxis.label)
        with mpl.rc_context(RC), _missing_glyphs_allowed():
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        """Return the PNG for a notebook, also without pyplot."""
        file = io.BytesIO()
        with mpl.rc_context(RC):
            self.savefig(file, format="png", dpi=_SCREEN_DPI, metadata=METADATA["png"])
        return file.getvalue()


def _break(label: Text) -> None:
    """Wrap an upright label to the height of a panel in a column of a journal."""
    lines = label.get_text().split("\n")
    label.set_text(
        "\n".join(part for one in lines for part in textwrap.wrap(one, _UPRIGHT_LETTERS))
    )


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function to draw in the house style."""

    @wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with mpl.rc_context(RC):
            return draw(*args, **kwargs)

    return wrapped


@dataclass(frozen=True)
class Stroke:
    """Style of a series: colour, marker and dashes, each of which distinguishes it."""

    colour: str
    marker: str = ""
    dashes: Any = "-"  # a name of matplotlib's, or an offset and lengths

    def line(self) -> Line2D:
        """Return the legend's handle."""
        return Line2D(
            [], [], color=self.colour, marker=self.marker, ls=self.dashes, markeredgecolor="white"
        )


def stroke(number: int) -> Stroke:
    """Return the style of a series by number, from 0; 28 differ without markers."""
    turn = number // len(COLOURS)
    return Stroke(
        COLOURS[number % len(COLOURS)],
        MARKERS[(number + turn) % len(MARKERS)],
        DASHES[(number % len(COLOURS) + turn) % len(DASHES)],
    )


class TooManyError(NothingToDrawError):
    """A figure can't hold so many series, panels or bars; ``example`` is a choice of some."""

    def __init__(self, message: str, example: str = "COLUMN=VALUE") -> None:
        super().__init__(message, cure=f"choose some, such as with --where {example}")


def limit(count: int, what: str, most: int = len(COLOURS) * len(DASHES)) -> None:
    """Raise TooManyError for too many series, panels or bars."""
    if count > most:
        raise TooManyError(f"{count} {what} are too many for one figure, which holds {most}")


def patch(number: int) -> dict[str, Any]:
    """Return the style of bars by number, from 0."""
    turn = number // len(COLOURS)
    return {
        "facecolor": COLOURS[number % len(COLOURS)],
        "hatch": HATCHES[(number + turn) % len(HATCHES)],
        "edgecolor": "white" if number % len(COLOURS) != 5 else EDGE,
        "linewidth": 0.5,
    }


def ordered_colours(count: int) -> list[str]:
    """Return colours from dark to light, for lines that have an order."""
    scale = mpl.colormaps["viridis"]
    # The light end of the scale can't be read on white.
    return [to_hex(scale(0.8 * number / max(1, count - 1))) for number in range(count)]


@dataclass(frozen=True)
class Words:
    """Texts around a figure: title above, caption and source below."""

    title: str
    caption: str
    source: str


def page(  # noqa: PLR0913 - what figures differ in
    words: Words,
    legend: Mapping[str, Artist],
    look: Look,
    count: int = 1,
    size: tuple[float, float] | None = None,
    *,
    same_y: bool = True,
    same_x: bool = True,
    columns: int = 2,
    whole: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with equal panels, title, legend and caption.

    The room for these is set in inches, so that it stays the same however many panels there are.
    A figure that ``look`` wants as narrow as a column of a journal has smaller letters, panels one
    below the other, and neither caption nor source, nor a title that ``look`` does not give.
    ``size`` is that of all panels together, of which a column of a journal takes less height
    unless it is ``whole``; without it ``columns`` of them at most stand beside each other. All have
    the same y with ``same_y``; all have the same x with ``same_x``, those beside each other
    without. Raises NothingToDrawError for too many panels, and where ``look`` leaves no room for
    them.
    """
    limit(count, "panels")
    is_column = of_journal(look)
    columns = 1 if is_column else min(count, columns)
    rows = -(-count // columns)
    wide, high = size or _panel_inches(columns, rows)
    if is_column and not whole:
        high = min(high, 1.9 * rows)
    around = _Around.of(words, legend, look, (wide, high), rows)
    figure = HouseFigure(
        figsize=(around.width, around.height), layout=ConstrainedLayoutEngine(rect=around.rect)
    )
    figure.caption = words.caption
    alike_x: Literal["all", "row", "none"] = "none" if count == 1 else "all" if same_x else "row"
    grid = figure.subplots(
        rows, columns, squeeze=False, sharex=alike_x, sharey=count > 1 and same_y
    )
    flat = list(grid.flat)
    for spare in flat[count:]:
        spare.set_visible(False)
    around.write(figure)
    for axes in flat if is_column else ():
        axes.tick_params(labelsize=_TINY)
        for axis in (axes.xaxis, axes.yaxis):
            axis.label.set_fontsize(_SMALL)
    return figure, flat[:count]


def of_journal(look: Look) -> bool:
    """Return whether a figure is as narrow as a column of a journal."""
    return look.width is not None and look.width < _COLUMN_INCHES


def _panel_inches(columns: int, rows: int) -> tuple[float, float]:
    """Return the default size of all panels together."""
    return (6.6, max(3.6, _ROW_INCHES * rows)) if columns == 1 else (9.6, 2.7 * rows)


@dataclass(frozen=True)
class _Around:
    """Texts around the panels, and the figure's size in inches with them.

    ``title`` and ``below`` are lines; ``legend`` has the samples by the lines of their names.
    """

    width: float
    height: float
    title: Sequence[str]
    legend: Mapping[str, Artist]
    letters: float
    margin: float
    head: float
    foot: float
    below: Sequence[str]

    @classmethod
    def of(
        cls,
        words: Words,
        legend: Mapping[str, Artist],
        look: Look,
        size: tuple[float, float],
        rows: int,
    ) -> _Around:
        """Return the texts and the size of a figure of ``rows`` of equal panels, as ``look`` asks.

        Raises NothingToDrawError where that leaves no room for the panels.
        """
        is_column = of_journal(look)
        wide, high = size
        width = look.width or wide
        own = f"{look.of}: {words.title}" if look.of else words.title
        above = look.title or ("" if is_column else own)
        title = _fitted(above, width - 0.15, 10, "bold") if above else []
        below = [
            line
            for text in (words.caption, words.source)
            for line in textwrap.wrap(text, int(width / 0.051))
        ]
        below = [] if is_column else below
        letters = _TINY if is_column else _SMALL
        shown = dict(legend) if look.legend else {}
        names = {"\n".join(_fitted(name, width - 0.7, letters)): shown[name] for name in shown}
        margin = 0.05 if is_column else 0.2
        legend_rows = _legend_size(list(names), width, letters)[1]
        head = margin + _TITLE_INCHES * len(title) + _LEGEND_ROW_INCHES * legend_rows
        foot = 0.02 if is_column else 0.08 + _FOOT_ROW_INCHES * len(below)
        height = look.height or high + head + foot
        least = _LEAST_COLUMN_INCHES * rows if is_column else _LEAST_INCHES
        if look.height and height - head - foot < min(high, least):
            raise too_small()
        return cls(width, height, title, names, letters, margin, head, foot, below)

    @property
    def rect(self) -> tuple[float, float, float, float]:
        """The panels' place in shares of the figure: left, bottom, width, height."""
        return 0, self.foot / self.height, 1, 1 - (self.head + self.foot) / self.height

    def write(self, figure: Figure) -> None:
        """Write title, legend, caption and source into the figure."""
        if self.title:
            of: dict[str, Any] = {"va": "top", "weight": "bold", "fontsize": 10}
            figure.text(0.015, 1 - 0.08 / self.height, "\n".join(self.title), **of)
        if self.legend:
            top = self.margin / 2 + _TITLE_INCHES * len(self.title)
            figure.legend(
                list(self.legend.values()),
                list(self.legend),
                loc="upper left",
                bbox_to_anchor=(0.005, 1 - top / self.height),
                ncols=_legend_size(list(self.legend), self.width, self.letters)[0],
                fontsize=self.letters,
                borderaxespad=0.2,
                labelspacing=0.3,
                columnspacing=1.4,
            )
        if self.below:
            small: dict[str, Any] = {"va": "bottom", "fontsize": 7, "color": GREY}
            figure.text(0.015, 0.06 / self.height, "\n".join(self.below), **small)


def label_y(figure: Figure, panels: Sequence[Axes], label: str) -> None:
    """Label the shared y axis."""
    if figure.get_figwidth() < _COLUMN_INCHES:
        label = label.replace(" in ", "\nin ", 1)
    if len(panels) == 1:
        panels[0].set_ylabel(label)
        return
    engine = figure.get_layout_engine()
    _left, bottom, _width, height = engine.get()["rect"] if engine else (0, 0, 1, 1)
    figure.supylabel(label, y=bottom + height / 2, fontsize="medium")


def name_panel(axes: Axes, title: str, count: int) -> None:
    """Title one of several panels, with line breaks."""
    inches = axes.figure.bbox.width / axes.figure.dpi / min(count, 2) - 0.5
    axes.set_title("\n".join(_fitted(title, inches, 9)), loc="left")


def width_pt(text: str, font: FontProperties) -> float:
    """Return the width of a text in points; a character without glyph is a box."""
    with _missing_glyphs_allowed():
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width)


@contextmanager
def _missing_glyphs_allowed() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NO_LETTER, UserWarning)
        yield


def _inches(text: str, size: float, weight: str) -> float:
    """Return the width of a text."""
    font = FontProperties(family=RC["font.family"], size=size, weight=weight)
    return width_pt(text, font) / 72


def _fitted(text: str, inches: float, size: float, weight: str = "normal") -> list[str]:
    """Wrap a text to a width of at least 10 letters."""
    letters = int(len(text) * inches / max(_inches(text, size, weight), 0.01))
    lines = textwrap.wrap(text, max(10, letters))
    while letters > 10 and any(_inches(line, size, weight) > inches for line in lines):
        letters -= 2
        lines = textwrap.wrap(text, max(10, letters))
    return lines


def _legend_size(names: Sequence[str], width: float, letters: float) -> tuple[int, int]:
    """Return the number of columns that fit a legend, and of its lines."""
    if not names:
        return 1, 0
    widest = max(_inches(line, letters, "normal") for name in names for line in name.split("\n"))
    lines = max(name.count("\n") + 1 for name in names)
    columns = int(width / (_HANDLE_INCHES + widest))
    columns = max(1, min(columns, 4, len(names)))
    return columns, lines * math.ceil(len(names) / columns)


def broken(names: Sequence[str], look: Look) -> tuple[list[str], int]:
    """Wrap names of bars, after a comma if they have one, and return the most lines of one."""
    letters = _BAR_LETTERS // 2 if of_journal(look) else _BAR_LETTERS
    lines = [_wrapped(name, letters) or [""] for name in names]
    return ["\n".join(one) for one in lines], max(map(len, lines))


def _wrapped(name: str, letters: int) -> list[str]:
    parts = name.split(", ")
    held = [part.replace(" ", _HELD) if len(part) < letters else part for part in parts]
    return [line.replace(_HELD, " ") for line in textwrap.wrap(", ".join(held), letters)]


_HELD = "\xa0"  # a space at which no line is broken


def shares(alphas: Mapping[str, float]) -> dict[str, Artist]:
    """Return the legend's handles for bands."""
    return {name: Patch(color=GREY, alpha=alpha) for name, alpha in alphas.items()}


@styled
def write(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix: .svg, .png or .pdf.

    Raises InputError for a figure that is too small for what it holds, and StorageError.
    """
    suffix = path.suffix.removeprefix(".").lower()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*sizes collapsed", UserWarning)
        try:
            write_atomically(
                path, partial(figure.savefig, format=suffix, metadata=METADATA[suffix])
            )
        except UserWarning as error:
            raise too_small() from error


def too_small() -> NothingToDrawError:
    """Return the error of a figure whose words would lie over each other."""
    return NothingToDrawError(
        "the figure is too small for its words and axes",
        cure="give it more width and height, or leave out the legend",
    )


def save(figure: Figure, directory: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, and return the paths. Raises StorageError."""
    paths = [directory / f"{name}.{suffix}" for suffix in ("png", "svg")]
    for path in paths:
        write(figure, path)
    return paths


METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""By the ending of a file: neither the time nor the version, so that one figure is one file."""
