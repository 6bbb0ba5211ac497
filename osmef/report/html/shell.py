"""Frame of every page: style, script, and a content security policy."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import osmef
from osmef.errors import InputError
from osmef.named_file import open_file
from osmef.results.files import storage, write_atomically

_TEMPLATES = Path(__file__).parent / "templates"
_MARK = b'<meta name="generator" content="OSMeF '
_HEAD_BYTES = 8192  # a page says within its first two thousand who wrote it


def fill(template: str, title: str, *, live: bool, **values: object) -> str:
    """Render a template with these values and the title.

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


def check_output(output: Path) -> None:
    """Raise InputError unless the path is a new file, or a page of ours.

    What the file held that OSMeF did not write could not be had back. Raises StorageError, too.
    """
    if output.suffix.lower() not in {".html", ".htm"}:
        raise InputError(
            f"a page can't be written as {output.name}",
            where="--output",
            cure="let the file end with .html",
        )
    if not output.exists():
        return
    with storage("look at", output), open_file(output) as file:
        head = file.read(_HEAD_BYTES)
    if head and _MARK not in head:
        raise InputError(
            "there is a file that OSMeF did not write",
            where=str(output),
            cure="name another with -o, or remove this one first",
        )


def write_page(output: Path, page: str) -> None:
    """Write a page as ``fill`` returns it. Raises as ``check_output``, and StorageError."""
    check_output(output)
    write_atomically(output, page.encode())


def _digest(script: str) -> str:
    """Return the hash of a script for a content security policy."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
