"""Fill the reference pages from the code, and put the JSON Schemas beside them (mkdocs hooks).

A line ``{{ part argument }}`` in a page becomes that part, so that no table of the manual can
differ from the program.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from enum import Enum
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import NoneType
from typing import Any, Literal, get_args, get_origin

HERE = Path(__file__).resolve().parent
# The manual describes this source tree, whichever osmef may be installed.
sys.path.insert(0, str(HERE.parent))

import typer.main  # noqa: E402
from pydantic import BaseModel, TypeAdapter  # noqa: E402
from pydantic.fields import FieldInfo  # noqa: E402

from osmef.cli.main import make_app  # noqa: E402
from osmef.facts.source import Command  # noqa: E402
from osmef.facts.table import FACTS, INTERFACE_FACTS, Fact  # noqa: E402
from osmef.images import bundle  # noqa: E402
from osmef.results import exchange, summary, tables, trial, udp, use  # noqa: E402
from osmef.results.schema import summary_schema  # noqa: E402
from osmef.scenario import clouds, fields, location, model, money, workload  # noqa: E402
from osmef.scenario.explain import write_scalar  # noqa: E402
from osmef.scenario.fields import quantity_of  # noqa: E402
from osmef.scenario.schema import json_schema  # noqa: E402
from osmef.units import format_duration, format_rate, format_size  # noqa: E402

SCHEMAS = {"scenario.schema.json": json_schema, "summary.schema.json": summary_schema}

_PART = re.compile(r"^\{\{ (?P<name>[a-z]+)(?: (?P<argument>\w+))? \}\}$", re.MULTILINE)
_WORDS = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    datetime: "time, ISO 8601 in UTC",
    date: "day, such as `2026-03-01`",
    Any: "value",
}
_QUANTITIES: dict[Any, str] = {
    format_duration: "duration",
    format_rate: "rate",
    format_size: "size",
}
_LIMITS = (("ge", "at least"), ("le", "at most"), ("lt", "below"), ("max_length", "at most"))


def on_page_markdown(markdown: str, **_mkdocs: Any) -> str:
    """Replace the parts of a page. Raises KeyError for a part or a model that is not there."""
    return _PART.sub(lambda found: PARTS[found["name"]](found["argument"]), markdown)


def on_post_build(config: Any) -> None:
    """Publish the JSON Schemas of the scenario file and of the summary."""
    for name, make in SCHEMAS.items():
        text = json.dumps(make(), indent=2, ensure_ascii=False)
        Path(config["site_dir"], name).write_text(text + "\n", encoding="utf-8")


def models() -> dict[str, type[BaseModel]]:
    """Return every model of the scenario file and of the results, by the name of its class."""
    names = [f"{clouds.__name__}.{room.name}" for room in iter_modules(clouds.__path__)]
    settings_of_clouds = [import_module(name) for name in names]
    written = (model, fields, money, *settings_of_clouds, workload, location)
    rooms = (*written, summary, trial, exchange, udp, use, bundle)
    return {
        name: thing
        for room in rooms
        for name, thing in vars(room).items()
        if isinstance(thing, type) and issubclass(thing, BaseModel) and thing.model_fields
    }


def keys(name: str) -> str:
    """Return the table of a model's keys."""
    fields = models()[name].model_fields
    rows = [[f"`{key}`", _type(field), str(field.description)] for key, field in fields.items()]
    return _table(["Key", "Value", "Meaning"], rows)


def settings(name: str) -> str:
    """Return the table of the keys of a model that people write, with their defaults."""
    fields = models()[name].model_fields
    rows = [
        [f"`{key}`", _type(field), _default(field), str(field.description)]
        for key, field in fields.items()
    ]
    return _table(["Key", "Value", "Default", "Meaning"], rows)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be written"
    value = field.get_default(call_default_factory=True)
    if value in (None, "", {}):
        return "none"
    quantity = quantity_of(field)
    return f"`{quantity.show(value) if quantity else _written(value)}`"


def _written(value: Any) -> str:
    """Return a default as one would write it in a scenario: settings of a kind by the kind."""
    if hasattr(value, "kind"):
        return str(value.kind)
    plain = TypeAdapter(Any).dump_python(value, mode="json", exclude_unset=True)
    return plain if isinstance(plain, str) else write_scalar(plain)


def _type(field: FieldInfo) -> str:
    quantity = quantity_of(field)
    show: Callable[[float], str] = quantity.show if quantity else str
    told = _words(field.annotation)
    if quantity is not None:
        told = _QUANTITIES[quantity.show] + " or null" * ("null" in told)
    limits = [
        f"{words} {show(getattr(mark, name)) if name != 'lt' else '2^63'}"
        + (" characters" if name == "max_length" else "")
        for mark in field.metadata
        for name, words in _LIMITS
        if hasattr(mark, name)
    ]
    return ", ".join([told, *limits])


def _words(annotation: Any) -> str:
    """Say what a value of this type looks like."""
    if get_args(annotation):
        return _compound(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{choice.value}`" for choice in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind = annotation.model_fields.get("kind")
        alone = f"`{kind.default}`, or " if kind and get_origin(kind.annotation) is Literal else ""
        return f"{alone}[{annotation.__name__}](#{annotation.__name__.lower()})"
    return _WORDS[annotation]


def _compound(annotation: Any) -> str:
    """Say what a value of a type that is made of others looks like."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin in (list, tuple):
        return f"list of: {_words(inner[0])}"
    if origin is dict:
        return f"mapping of names to: {_words(inner[1])}"
    if hasattr(annotation, "__metadata__"):
        return _words(inner[0])
    parts = [_words(one) for one in inner if one is not NoneType]
    return " or ".join([*dict.fromkeys(parts), *(["null"] if NoneType in inner else [])])


def commands(_argument: str | None = None) -> str:
    """Return the reference of all commands, as their own help has it."""
    group: Any = typer.main.get_command(
        make_app()
    )  # click's or typer's own, which differ by version
    parts = [_table(["Option", "Meaning"], _parameters(group))]
    for name, command in every_command(group):
        arguments = [p.metavar or p.name.upper() for p in command.params if not _is_option(p)]
        usage = " ".join(["osmef", name, "[OPTIONS]", *arguments])
        parts += [
            f"## osmef {name}",
            command.help,
            f"```text\n{usage}\n```",
            _table(["Argument or option", "Meaning"], _parameters(command)),
            _epilog(command.epilog),
        ]
    return "\n\n".join(parts)


def every_command(group: Any) -> Iterable[tuple[str, Any]]:
    """Yield every command with its name; those of a group by both names ("image build")."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", found) for inner, found in every_command(command))
        else:
            yield name, command


def _is_option(parameter: Any) -> bool:
    return bool(parameter.opts[0].startswith("-"))


def _parameters(command: Any) -> list[list[str]]:
    rows = []
    for parameter in command.params:
        name = parameter.metavar or parameter.name.upper()
        names = ", ".join(f"`{option}`" for option in parameter.opts)
        if not _is_option(parameter):
            names = f"`{name}`"
        elif not parameter.is_flag:
            names += f" `{name}`"
        rows.append([names, _help(parameter)])
    return rows


def _help(parameter: Any) -> str:
    default = parameter.default
    choices = f" One of {_words(type(default))}." if isinstance(default, Enum) else ""
    if isinstance(default, Path | Enum):
        shown = default.value if isinstance(default, Enum) else default
        choices += f" Default: `{shown}`."
    return f"{parameter.help}{choices}"


def _epilog(text: str) -> str:
    """Return the text after a command's help; lines of the shell become blocks of code."""
    paragraphs = [part.strip() for part in text.split("\n\n")]
    return "\n\n".join(
        # What stands behind a wide gap is a remark.
        f"```console\n$ {re.sub(' {2,}', '   # ', part)}\n```"
        if part.startswith("osmef ")
        else part
        for part in paragraphs
    )


def facts(_argument: str | None = None) -> str:
    """Return the tables of all facts of an endpoint and of each of its interfaces."""
    whole = _table(["Fact", "Source"], map(_fact, FACTS))
    each = _table(["Fact of an interface", "Source"], map(_fact, INTERFACE_FACTS))
    return f"{whole}\n\n{each}"


def _fact(fact: Fact) -> list[str]:
    source = fact.source
    text = " ".join(source.argv) if isinstance(source, Command) else source.path
    return [f"`{fact.key}`", f"`{text}`"]


def columns(name: str) -> str:
    """Return the table of the columns of a Parquet file."""
    meanings = {"intervals": trial.Interval, "requests": exchange.Request}[name].model_fields
    rows = [
        [
            f"`{column.name}`",
            f"{column.type}{', may be null' * column.nullable}",
            str(meanings[column.name].description),
        ]
        for column in tables.TABLES[name]
    ]
    return _table(["Column", "Type", "Meaning"], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    # A pipe would end the cell, also within code.
    return "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )


PARTS: dict[str, Callable[[Any], str]] = {
    "keys": keys,
    "settings": settings,
    "commands": commands,
    "facts": facts,
    "columns": columns,
}
