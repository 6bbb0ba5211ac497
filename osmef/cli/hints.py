"""Hints for unknown options: the setting of a scenario, or the option of iperf3, that is meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer.core

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
_DURATIONS = {"duration", "interval"}
_FLAGS = {"direction": "reverse"}
_TAKE_A_TABLE = {"similarity": "similarity", "plot": "plot similarity"}


class HintingCommand(typer.core.TyperCommand):
    """A command whose error message for an unknown option has a hint."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # typer's own, by its version
        """Parse the arguments as typer does."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if type(error).__name__ == "NoSuchOption":  # click's, or that of typer's copy of it
                self._add_hint(error, words)
            raise

    def _add_hint(self, error: Any, words: Sequence[str]) -> None:
        if error.option_name == "--machines" and self.name in _TAKE_A_TABLE:
            hint = f"give the file as the runs are given: osmef {_TAKE_A_TABLE[self.name]} FILE"
        else:
            options = {name for param in self.params for name in param.opts}
            hint = _hint(error.option_name, words, options)
        if hint:
            error.message, error.possibilities = f"{error.message}\n{hint}", None


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
    for place, word in enumerate(words):
        if word == option:
            after = words[place + 1 : place + 2]
            return next((one for one in after if not one.startswith("-")), "VALUE")
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if len(option) == 2 and word.startswith(option):  # as in -P8
            return word[2:]
    return "VALUE"
