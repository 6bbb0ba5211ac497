"""Inline SVG of figures: unique ids, text alternatives, and no bytes that draw nothing."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

from osmef.report.style import METADATA, RC

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_METADATA = f"{{{_SVG}}}metadata"
_HREF = f"{{{_XLINK}}}href"
_URL = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_PLACES = ("d", "x", "y")  # in points, of which a hundredth can't be seen
_DPI = 150  # of what a figure holds as an image, such as a cloud of points

ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _XLINK)


def inline_svg(figure: Figure, prefix: str, words: str) -> Markup:
    """Return a figure as an ``svg`` element of a page.

    Its ids begin with ``prefix``, since those of two figures may be the same; ``words`` is its text
    alternative. Its width is that of its place, so that it stays crisp at every size.
    """
    file = io.BytesIO()
    with mpl.rc_context(RC):
        figure.savefig(file, format="svg", dpi=_DPI, metadata=METADATA["svg"])
    root = ElementTree.fromstring(file.getvalue())  # noqa: S314 - matplotlib has just written it
    for element in root.findall(_METADATA):
        root.remove(element)
    _slim(root, prefix)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": words}
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - it is escaped XML


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
        for key, value in element.attrib.items():
            if key == _HREF and value.startswith("#"):
                element.set(key, f"#{names[value[1:]]}")
            elif "url(#" in value:
                element.set(key, _URL.sub(lambda found: f"url(#{names[found[1]]})", value))
            elif key in _PLACES:
                element.set(key, _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", value))
        element.text = (element.text or "").strip() or None
        element.tail = None
