"""Inline SVG of figures: unique ids, text alternatives, and no bytes that draw nothing.

Words are text, not outlines, which would be most of the bytes of a page. Each is as wide as the
layout of the figure has measured it (``textLength``), whatever font the reader's machine has.
"""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from osmef.report.style import METADATA, RC

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
    width, _, _ = text_to_path.get_text_width_height_descent(words, font, ismath=False)
    text.attrib |= {**style, "font-size": f"{size:g}"}
    if words:
        text.attrib |= {"textLength": f"{width:.1f}", "lengthAdjust": "spacingAndGlyphs"}
    turned = _TURNED.fullmatch(text.attrib.get("transform", ""))
    if turned and not float(turned[1]):
        del text.attrib["transform"]


def _slim(root: ElementTree.Element, prefix: str) -> None:
    """Give ids that something refers to short names, and drop all others, and blanks."""
    names: dict[str, str] = {}
    for element in root.iter():
        for key, value in element.attrib.items():
            told = [value[1:]] if key == _HREF and value.startswith("#") else _URL.findall(value)
            for one in told:
                names.setdefault(one, f"{prefix}{len(names)}")
    for element in root.iter():
        own = names.get(element.attrib.pop("id", ""))
        if own is not None:
            element.set("id", own)
        for key, value in list(element.attrib.items()):
            if key == _HREF and value.startswith("#"):
                del element.attrib[key]
                element.set("href", f"#{names[value[1:]]}")
            elif "url(#" in value:
                element.set(key, _URL.sub(lambda found: f"url(#{names[found[1]]})", value))
            elif key in _PLACES:
                short = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", value)
                element.set(key, _AROUND_LETTER.sub(r"\1", short))
        element.text = (element.text or "").strip() or None
        element.tail = None
