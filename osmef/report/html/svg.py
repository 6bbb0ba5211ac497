"""Inline SVG of figures: unique ids, and text alternatives."""

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
    for element in root.iter():
        _rename(element, prefix)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": words}
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - it is escaped XML


def _rename(element: ElementTree.Element, prefix: str) -> None:
    for key, value in element.attrib.items():
        if key == "id":
            element.set(key, prefix + value)
        elif key == _HREF and value.startswith("#"):
            element.set(key, f"#{prefix}{value[1:]}")
        elif "url(#" in value:
            element.set(key, _URL.sub(rf"url(#{prefix}\1)", value))
