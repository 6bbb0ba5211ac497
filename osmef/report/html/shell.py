"""What every page has: the style, the script, and the headers that let nothing else in."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import osmef

_TEMPLATES = Path(__file__).parent / "templates"


def fill(template: str, title: str, *, live: bool, **values: object) -> str:
    """Return a page as text, of a template with these values and the title.

    With ``live`` it has what draws the figures that have data.
    """
    environment = Environment(
        loader=PackageLoader("osmef.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ["plotly-basic.min.js", "page.js"] if live else ["page.js"]
    scripts = [(_TEMPLATES / name).read_text(encoding="utf-8") for name in names]
    style = (_TEMPLATES / "page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(
        title=title,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=osmef.__version__,
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - none is from elsewhere
        style=Markup(style),  # noqa: S704
        digests=[_digest(script) for script in scripts],
        **values,
    )


def _digest(script: str) -> str:
    """Return what a content security policy calls a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
