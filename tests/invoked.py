"""A command line within this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from osmef.cli.main import make_app


def invoke(*words: object, answers: str | None = None, **env: str) -> Result:
    """Return what a command line gives; of all commands only its own is loaded."""
    line = [str(word) for word in words]
    return CliRunner().invoke(make_app(line), line, input=answers, env=env or None)
