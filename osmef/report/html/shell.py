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


def fill(template: str, title: str, **values: object) -> str:
    """Return a page as text, of a template with these values and the title."""
    environment = Environment(
        loader=PackageLoader("osmef.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (_TEMPLATES / "page.js").read_text(encoding="utf-8")
    style = (_TEMPLATES / "page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(
        title=title,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=osmef.__version__,
        script=Markup(script),  # noqa: S704 - both are ours
        style=Markup(style),  # noqa: S704
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **values,
    )
