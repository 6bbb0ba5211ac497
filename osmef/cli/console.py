"""Shared by all commands: options, consoles, and errors as text or JSON."""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import LazyLoader, find_spec, module_from_spec
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text
from typing_extensions import override

from osmef.cli.completion import complete_run, complete_setting, complete_where
from osmef.cli.streams import failure_of
from osmef.engine.cancellation import CancellationToken, stop_on_signals
from osmef.errors import (
    InputError,
    Interrupted,
    OsmefError,
    PackageError,
    StorageError,
    limit_cure,
)
from osmef.kinds import broken_kind
from osmef.units import counted

if TYPE_CHECKING:
    from osmef.results.rundir import RunDirectory

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="COLUMN=VALUE,...",
        autocompletion=complete_where,
        help="Only trials with one of these values in a column. May be repeated: of one column any"
        " of the values, of several columns all.",
        show_default=False,
    ),
]


def where_of(texts: list[str] | None) -> dict[str, list[str]]:
    """Return the wanted values by column, for ``osmef.report.data.Data``. Raises InputError."""
    found: dict[str, list[str]] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            cure = "write it as that"
            raise InputError(f"{text!r} is not NAME=VALUE", where="--where", cure=cure)
        found.setdefault(name, []).append(value)
    return found


def later(name: str) -> ModuleType:
    """Import a module lazily: it is executed at its first use.

    What is set in it before stays so.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module named {name!r}", name=name)
    spec.loader = loader = LazyLoader(spec.loader)
    module = sys.modules[name] = module_from_spec(spec)
    loader.exec_module(module)
    return module


# Newlines and tabs are the program's own. Beside control characters (C0, DEL, C1) it is what turns
# the direction of text (Unicode UAX #9), ends lines, can't be seen, or is half a character.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def plain(text: str) -> str:
    r"""Escape control characters, such as ``\\x1b``, in a text for a terminal."""
    return _OBEYED.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else ascii(found[0])[1:-1]


_WIDTH = 80
"""Columns of a terminal that reports none, as rich assumes."""


class PlainConsole(Console):
    """A console that escapes control characters in what it prints."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if self.width < 1:  # with COLUMNS=0
            self.width = _WIDTH

    @override
    def render_str(self, text: str, **settings: Any) -> Text:
        return super().render_str(plain(text), **settings)  # so that tables know how wide it is

    @override
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            shown = segment.text if segment.control else plain(segment.text)
            yield segment if shown == segment.text else segment._replace(text=shown)


class PlainFormatter(logging.Formatter):
    """Log formatter that escapes control characters: libraries quote what servers send."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))


# A word between colons, as in an IPv6 address, is no name of an emoji.
out = PlainConsole(highlight=False, soft_wrap=True, emoji=False)
"""Standard output: results."""

err = PlainConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)
"""Standard error: progress, warnings, errors."""

# For help and wrong command lines, and slow to load.
later("typer.rich_utils").Console = PlainConsole  # type: ignore[attr-defined]

# Whether it can be read is checked by its reader, whose error has a cure and is also JSON.
ScenarioFile = Annotated[
    Path,
    typer.Argument(
        help="Scenario file, YAML or JSON.", metavar="FILE", show_default=False, readable=False
    ),
]
CampaignFile = Annotated[
    Path,
    typer.Argument(
        help="Campaign file, YAML or JSON.", metavar="FILE", show_default=False, readable=False
    ),
]


RunPath = Annotated[
    Path,
    typer.Argument(
        help="A run: its directory, the beginning of its name in results/, or `latest`.",
        metavar="RUN",
        autocompletion=complete_run,
    ),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Directory that holds the run directories.")]
PAGE_HELP = "Where to write the page. An older page is replaced, any other file is not."
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Print every step as a line; twice, log the SSH connections, too.",
    ),
]
Figures = Annotated[
    bool,
    typer.Option(
        "--figures/--no-figures",
        help="Draw the figures into the run directory, which takes some seconds; `osmef plot` and"
        " `osmef report` draw them at any time.",
    ),
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        autocompletion=complete_setting,
        help="Use another value than the file's, such as workload.duration=1s or"
        " connections=[1,10]. May be repeated.",
        show_default=False,
    ),
]


def read_percent(text: object) -> float:
    """Parse a percentage: ``5``, ``5%`` or ``5 %``."""
    try:
        number = float(str(text).removesuffix("%").strip())
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise typer.BadParameter(f"{text!r} is no percentage; write 5 or '5 %'")
    return number


def parse_overrides(texts: list[str]) -> dict[str, str]:
    """Parse the ``--set`` options. Raises InputError."""
    overrides = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(
                f"{text!r} is not NAME=VALUE",
                where="--set",
                cure="write, for example: --set workload.duration=1s",
            )
        overrides[name.strip()] = value
    return overrides


def print_note(console: Console, text: str, word: str = "[yellow]note[/]") -> None:
    """Print a note: on a terminal broken between words, elsewhere in one line, as for grep."""
    console.print(f"{word}: {escape(text)}", soft_wrap=not console.is_terminal)


def note_trial_counts(runs: Iterable[RunDirectory]) -> None:
    """Print a note for each run whose log of trials has more or fewer than its summary counts."""
    from osmef.results.brief import trial_count_warning  # noqa: PLC0415 - not all commands read runs

    for run in runs:
        if note := trial_count_warning(run):
            print_note(err, f"{run.id}: {note}")


def note_left_out(paths: Sequence[Path]) -> None:
    """Print a note for each run that is left out among several, as it has no trials yet."""
    from osmef.results.rundir import left_out  # noqa: PLC0415 - not all commands read runs

    for run in left_out(paths):
        print_note(err, f"{run} is left out: it has no trials yet")


def print_json(value: Any) -> None:  # whatever JSON can hold
    """Print a value as JSON, without styling."""
    text = json.dumps(value, indent=2).replace("\x7f", "\\u007f")  # the only one that it lets pass
    print(text)  # noqa: T201 - no markup, no wrapping


def print_text(text: str) -> None:
    """Print a text for another program; control characters are escaped on a terminal."""
    print(plain(text) if sys.stdout.isatty() else text, end="")  # noqa: T201 - no markup


def set_up_logging(verbose: int) -> None:
    """Log to standard error with ``-v``; without it, hide the libraries' warnings."""
    level = logging.INFO if verbose > 1 else logging.CRITICAL
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(asctime)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    logging.captureWarnings(capture=verbose < 2)


def stopping() -> AbstractContextManager[CancellationToken]:
    """Turn signals into a cancellation, as ``stop_on_signals`` does, and print a notice."""
    return stop_on_signals(lambda text: err.print(f"[yellow]{text}[/]"))


@contextmanager
def reporting(as_json: bool = False) -> Iterator[None]:
    """Turn an exception into an error message, and into the exit code of its class."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as caught:
        error = _as_osmef_error(caught)
        if error is None:
            raise
        if as_json:
            print_json({"error": error_record(error)})
        if not as_json or failure_of(sys.stdout) is not None:
            print_error(error)
        raise typer.Exit(error.exit_code) from caught


def _as_osmef_error(caught: Exception | KeyboardInterrupt) -> OsmefError | None:
    """Return the error to show; None for a bug of ours, or for what typer handles."""
    if isinstance(caught, OsmefError):
        return caught
    if isinstance(caught, KeyboardInterrupt):
        return Interrupted(f"stopped by {caught.args[0] if caught.args else 'SIGINT'}")
    missing = PackageError.of(caught) if isinstance(caught, ModuleNotFoundError) else None
    return missing or broken_kind(caught) or environment_error(caught)


# As pathlib and platformdirs say it, of a user without HOME and an entry in passwd.
_NO_HOME = re.compile("could not determine (the )?home directory", re.IGNORECASE)


def environment_error(caught: BaseException, action: str = "look at") -> OsmefError | None:
    """Return the error for a path or a limit of this machine; None for a bug of ours.

    ``action`` is what has failed with a path.
    """
    if isinstance(caught, UnicodeEncodeError) and caught.reason == "surrogates not allowed":
        rename = "check how it is written, or rename it"
        return InputError("this is not UTF-8", where=caught.object, cure=rename)
    if isinstance(caught, OSError) and isinstance(caught.filename, str):
        from osmef.results.files import storage_error  # noqa: PLC0415 - not all commands read runs

        return storage_error(action, Path(caught.filename), caught)
    if isinstance(caught, RuntimeError) and _NO_HOME.search(str(caught)):
        home = "set HOME to a directory that this user may write to"
        return InputError("this user has no home directory", cure=home)
    cure = limit_cure(caught)
    return StorageError(str(caught) or "out of memory", cure=cure) if cure else None


_MOST_EXCERPTS = 5
"""Of so many problems the line of the file is shown."""


def error_record(error: OsmefError) -> Mapping[str, Any]:
    """Return an error as JSON."""
    problems = error.problems if isinstance(error, InputError) else ()
    more = error.more if isinstance(error, InputError) else 0
    return {
        "kind": error.kind,
        "message": error.message,
        "where": error.where,
        "cure": error.cure,
        "problems": [
            {key: value for key, value in vars(problem).items() if key != "excerpt"}
            for problem in problems
        ],
        **({"more_problems": more} if more else {}),
    }


def print_error(error: OsmefError) -> None:
    """Print an error as text: what failed, where, why, and the cure."""
    if isinstance(error, InputError) and error.problems:
        for number, problem in enumerate(error.problems):
            err.print(f"[bold]{escape(problem.place)}[/]: {escape(problem.message)}")
            if problem.excerpt and number < _MOST_EXCERPTS:
                err.print(f"[dim]{escape(indent(problem.excerpt, '    '))}[/]")
            err.print(f"  [green]cure[/]: {escape(problem.cure)}")
        if error.more:
            err.print(f"and {error.more} more")
        count = counted(len(error.problems) + error.more, "problem")
        err.print(f"[bold red]{count}[/]")
        return
    where = f"[bold]{escape(error.where)}[/]: " if error.where else ""
    err.print(f"[bold red]error[/]: {where}{escape(error.message)}")
    if error.cure:
        err.print(f"  [green]cure[/]: {escape(error.cure)}")
