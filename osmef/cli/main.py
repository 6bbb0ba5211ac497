"""The ``osmef`` command."""

from __future__ import annotations

import ast
import errno
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer
import typer.core

import osmef
from osmef.cli.streams import failure_of
from osmef.errors import PackageError, StorageError

# Flags have no value.
_WORDS = {
    "bool": "",
    "str": "TEXT",
    "int": "N",
    "int range": "N",
    "float": "NUMBER",
    "float range": "NUMBER",
    "Path": "PATH",
    "path": "PATH",
}


_METHOD = "display_type_rich"


def _shown(reported: str) -> str:
    """Return the display of a parameter's type, such as ``<list[str]>``."""
    word = reported.strip("<>").removeprefix("list[").removesuffix("]")
    return _WORDS.get(word, word)


def _of_option(option: Any, ctx: Any) -> str:  # typer's own, which differ by its version
    if option.metavar is not None or option.count:
        return option.metavar or ""
    return _shown(option.display_type(ctx))


def _of_argument(argument: Any, ctx: Any) -> str:
    return "" if argument.metavar is not None else _shown(argument.display_type(ctx))


def show_plain_types() -> None:
    """Show parameter types as plain words in all help texts; a fallback for older typer."""
    for kind, shown in (
        (typer.core.TyperOption, _of_option),
        (typer.core.TyperArgument, _of_argument),
    ):
        setattr(kind, _METHOD, shown)


_COMMANDS = {
    "run": "run",
    "quick": "run",
    "init": "scenario_files",
    "profile": "profile",
    "resume": "resume",
    "extend": "resume",
    "reap": "reap",
    "validate": "plan",
    "plan": "plan",
    "list": "results",
    "show": "results",
    "plot": "plot",
    "compare": "compare",
    "recommend": "machine_types",
    "similarity": "machine_types",
    "statistics": "statistics",
    "report": "results",
    "import": "results",
    "export": "results",
    "schema": "scenario_files",
    "workloads": "kinds",
    "layers": "kinds",
    "verify-methods": "statistics",
}
"""The module of each command, where its function is ``run_command``, its epilog ``RUN_EPILOG``."""
_GROUPS = ("campaign", "image", "prices", "program")
"""Each has a module of its name, and in it an ``app``."""
_ONLY_SHOW = (
    "list", "show", "plan", "compare", "recommend", "similarity", "statistics", "export", "schema",
    "workloads", "layers", "verify-methods", "campaign plan", "campaign status", "campaign log",
    "image list", "prices list", "prices rank", "program list", "--version", "--help", "-h",
)  # fmt: skip
"""Commands whose work is what they print. That of validate is its exit code."""


def make_app(words: Sequence[str] | None = None) -> typer.Typer:
    """Return the command line application; with known arguments it imports one command.

    All commands together take seconds to import. For words only the command that they begin with
    is, and where they begin with none, of each command its name and what it does is known.
    """
    show_plain_types()
    app = typer.Typer(
        name="osmef",
        help="Find out what a cloud's network really gives you.",
        epilog="First steps: osmef quick HOST_A HOST_B, or osmef init and osmef run btc.yaml",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )
    app.callback()(_callback)
    names = (*_COMMANDS, *_GROUPS)
    first = words[0] if words else ""
    if words is None or first in names:
        for name in names if words is None else (first,):
            _add(app, name)
    else:
        for name in names:
            app.command(name=name, help=_summary(name))(_not_imported)
    return app


def _add(app: typer.Typer, name: str) -> None:
    try:
        module = import_module(_module(name))
    except ModuleNotFoundError as error:
        reported = PackageError.of(error)
        if reported is None:
            raise
        from osmef.cli.console import print_error  # noqa: PLC0415 - rich is slow to load

        print_error(reported)
        sys.exit(reported.exit_code)
    if name in _GROUPS:
        for one in module.app.registered_commands:
            one.help = _unwrapped(one.help or one.callback.__doc__)
            one.cls = HintingCommand
        app.add_typer(module.app, name=name)
    else:
        function = getattr(module, _function(name))
        epilog = getattr(module, f"{_word(name).upper()}_EPILOG")
        text = _unwrapped(function.__doc__)
        app.command(name=name, cls=HintingCommand, help=text, epilog=epilog)(function)


def _unwrapped(text: str | None) -> str:
    """Return a help text with one line a paragraph, which a terminal breaks where it has to."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(one.replace("\n", " ") for one in paragraphs)


def _module(name: str) -> str:
    """Return the module of a command or a group."""
    return f"osmef.cli.{_COMMANDS.get(name, name)}"


def _function(name: str) -> str:
    """Return the name of a command's function."""
    return f"{_word(name)}_command"


def _word(name: str) -> str:
    return name.replace("-", "_")


def _summary(name: str) -> str:
    """Return the first line of a command's help, without importing it.

    A command says it in the docstring of its function, a group where it makes its ``app``.
    """
    for node in _tree(_module(name)).body:
        if isinstance(node, ast.FunctionDef) and node.name == _function(name):
            return ast.get_docstring(node) or ""
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "app":
            (text,) = [
                one.value for one in getattr(node.value, "keywords", ()) if one.arg == "help"
            ]
            return str(ast.literal_eval(text))
    raise AssertionError(f"{name} says nothing")


@cache
def _tree(module: str) -> ast.Module:
    spec = find_spec(module)
    source = spec.loader.get_source(spec.name) if spec and spec.loader else ""  # type: ignore[attr-defined]
    return ast.parse(source)


def _not_imported() -> None:
    """Stand in for a command that is not invoked."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"osmef {osmef.__version__}")
        raise typer.Exit


def _callback(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find out what a cloud's network really gives you."""


def load(words: Sequence[str]) -> Callable[[], None]:
    """Return the program for these arguments; its exit codes are documented."""
    return partial(_run, make_app(_completed() or words), words)


def _completed() -> list[str]:
    """Return the arguments that a shell wants to have completed."""
    if "_OSMEF_COMPLETE" not in os.environ:
        return []
    typed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return typed.split()[1:]


def _run(app: typer.Typer, words: Sequence[str]) -> None:
    """Run the program. One that only prints fails if its output was lost.

    A reader that has gone (head, less) has what it wanted. Its name is that of the command also as
    ``python -m osmef``: the script for completion is made of it.
    """
    try:
        _call(app)
    except SystemExit as end:
        lost = failure_of(sys.stdout)
        if lost is None or lost.errno == errno.EPIPE:
            raise
        is_closed = lost.errno == errno.EBADF
        why = "it is closed" if is_closed else f"can't be written: {lost.strerror}"
        from osmef.cli.console import err, print_error  # noqa: PLC0415 - rich is slow to load

        if not end.code and not {" ".join(words[:1]), " ".join(words[:2])}.isdisjoint(_ONLY_SHOW):
            cure = "send it to a file or a program that takes it"
            print_error(StorageError(why, where="standard output", cure=cure))
            sys.exit(StorageError.exit_code)
        if not is_closed:  # by a reader that has read enough
            err.print(f"[yellow]note[/]: standard output: {why}")
        raise


def _call(app: typer.Typer) -> None:
    """Call the program; what keeps --install-completion from writing is no traceback, either."""
    try:
        app(prog_name="osmef")
    except (OSError, RuntimeError) as caught:
        from osmef.cli.console import environment_error, print_error  # noqa: PLC0415 - as above

        error = environment_error(caught, "write")
        if error is None:
            raise
        print_error(error)
        sys.exit(error.exit_code)


_OF_IPERF3 = {
    "-P": "connections",
    "-C": "congestion_control",
    "--congestion": "congestion_control",
    "-M": "mss",
    "--set-mss": "mss",
    "-R": "direction",
    "--reverse": "direction",
    "-b": "rate",
    "--bitrate": "rate",
    "-i": "interval",
    "-n": "bytes",
    "-t": "duration",
    "--time": "duration",
    "-w": "window",
}
"""The settings that options of iperf3 mean."""
_NO_CHOICE = re.compile(r"(?:Value error, )?('.*?'|\".*?\") is not one of (.+)\.$", re.DOTALL)
"""What typer says of a word that is none of an argument's choices; it differs by its version."""
_DURATIONS = {"duration", "interval"}
_FLAGS = {"direction": "reverse"}
_TAKE_A_TABLE = {"similarity": "similarity", "plot": "plot similarity"}


class HintingCommand(typer.core.TyperCommand):
    """A command whose errors for an unknown option and an unknown choice have a hint."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # typer's own, by its version
        """Parse the arguments as typer does."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if type(error).__name__ == "NoSuchOption":  # click's, or that of typer's copy of it
                self._add_hint(error, words)
            elif found := _NO_CHOICE.search(getattr(error, "message", "")):
                setattr(error, "message", _choices(found))  # noqa: B010 - of typer's own type
            raise

    def _add_hint(self, error: Any, words: Sequence[str]) -> None:
        if error.option_name == "--machines" and self.name in _TAKE_A_TABLE:
            hint = f"give the file as the runs are given: osmef {_TAKE_A_TABLE[self.name]} FILE"
        else:
            options = {name for param in self.params for name in param.opts}
            hint = _hint(error.option_name, words, options)
        if hint:
            error.message, error.possibilities = f"{error.message}\n{hint}", None


def _choices(found: re.Match[str]) -> str:
    """Return the message for a word that is none of an argument's choices."""
    from osmef.scenario.names import did_you_mean  # noqa: PLC0415 - takes a while to load

    choices = re.findall("'([^']+)'", found[2])
    return f"there is no {found[1]}; {did_you_mean(found[1].strip(found[1][0]), choices, choices)}"


def _hint(option: str, words: Sequence[str], options: set[str]) -> str:
    """Return the hint; empty without a matching setting."""
    name = _OF_IPERF3.get(option) or option.removeprefix("--").replace("-", "_")
    value = _FLAGS.get(name) or _value(option, words)
    if value.isdecimal() and name in _DURATIONS:
        value += "s"
    if f"--{name}" in options:
        return f"write --{name} {value}"
    setting = _setting(name) if options & {"--set", "--connections"} else ""
    if not setting:
        return ""
    if "--set" not in options:
        return f"{setting} is a setting of a scenario file: `osmef init` writes one for `osmef run`"
    return f"it is a setting of the scenario: --set {setting}={value}"


def _setting(name: str) -> str:
    """Return the full name of a scenario's setting, or an empty text."""
    # the models take a while to load
    from osmef.scenario.names import UnknownNameError, field_at, resolve  # noqa: PLC0415

    try:
        paths = resolve(name)
    except UnknownNameError:
        return ""
    if field_at(paths[0]) is None:
        return ""
    return ".".join(paths[0]) if len(paths) == 1 else name


def _value(option: str, words: Sequence[str]) -> str:
    """Return the value of an option."""
    for index, word in enumerate(words):
        if word == option:
            after = words[index + 1 : index + 2]
            return next((one for one in after if not one.startswith("-")), "VALUE")
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if len(option) == 2 and word.startswith(option):  # as in -P8
            return word[2:]
    return "VALUE"
