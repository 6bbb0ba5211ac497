"""Fill the reference pages from the code, and put the JSON Schemas beside them (mkdocs hooks).

A line ``{{ part argument }}`` in a page becomes that part, so that no table of the manual can
differ from the program.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

HERE = Path(__file__).resolve().parent
# The manual describes this source tree, whichever osmef may be installed.
sys.path.insert(0, str(HERE.parent))

import typer.main  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from osmef.cli.main import make_app  # noqa: E402
from osmef.facts.collect import FACTS, INTERFACE_FACTS, Command, Fact  # noqa: E402
from osmef.images import guest_image  # noqa: E402
from osmef.kinds import LAYERS, PROVIDERS, WORKLOADS  # noqa: E402
from osmef.results import measure, observations, summary, tables, trial  # noqa: E402
from osmef.results.measure import shown_unit  # noqa: E402
from osmef.results.summary import summary_schema  # noqa: E402
from osmef.scenario import clouds, fields, location, model, workload  # noqa: E402
from osmef.scenario.base import keys_of  # noqa: E402
from osmef.scenario.clouds.base import CloudAccess  # noqa: E402
from osmef.scenario.schema import (  # noqa: E402
    Style,
    default_of,
    json_schema,
    type_of,
    words,
)
from osmef.supply import bundle  # noqa: E402
from osmef.workloads import programs  # noqa: E402
from osmef.workloads.tool import Tool  # noqa: E402
from osmef.workloads.trial_workload import usual_measures  # noqa: E402

# Nor does it describe installed plug-ins, such as those that its own exercises make.
for _kinds in (LAYERS, PROVIDERS, WORKLOADS):
    _kinds.leave_packages_out()

EXAMPLES = HERE / "examples"
SCHEMAS = {"scenario.schema.json": json_schema, "summary.schema.json": summary_schema}

_PART = re.compile(r"^\{\{ (?P<name>[a-z]+)(?: (?P<argument>[\w./-]+))? \}\}$", re.MULTILINE)
_STYLE = Style(
    code=lambda text: f"`{text}`",
    model=lambda model: f"[{model.__name__}](#{model.__name__.lower()})",
)


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
    written = (model, workload, fields, *settings_of_clouds, location)
    rooms = (*written, summary, measure, trial, observations, guest_image, bundle)
    found = {
        name: thing
        for room in rooms
        for name, thing in vars(room).items()
        if isinstance(thing, type) and issubclass(thing, BaseModel) and thing.model_fields
        if not issubclass(thing, CloudAccess)  # which a journal holds, and nobody writes
    }
    more = (*_of_workloads(), *LAYERS.all_settings())
    return {**found, **{one.__name__: one for one in more}}


def _of_workloads() -> Iterable[type[BaseModel]]:
    """Yield the models of all workloads' settings, and those in the same modules."""
    yield from (programs.Run, programs.Line)
    for settings in WORKLOADS.all_settings():
        module = settings.__module__
        for thing in vars(sys.modules[module]).values():
            is_model = isinstance(thing, type) and issubclass(thing, BaseModel)
            if is_model and thing.__module__ == module:
                yield thing


def keys(name: str) -> str:
    """Return the table of a model's keys."""
    fields = keys_of(models()[name])
    rows = [
        [f"`{key}`", type_of(field, _STYLE), str(field.description)]
        for key, field in fields.items()
    ]
    return _table(["Key", "Value", "Meaning"], rows)


def settings(name: str) -> str:
    """Return the table of the keys of a model that people write, with their defaults."""
    fields = keys_of(models()[name])
    rows = [
        [f"`{key}`", type_of(field, _STYLE), default_of(field, _STYLE), str(field.description)]
        for key, field in fields.items()
    ]
    return _table(["Key", "Value", "Default", "Meaning"], rows)


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
    choices = f" One of {words(type(default), _STYLE)}." if isinstance(default, Enum) else ""
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
    meanings = {"intervals": trial.Interval, "requests": observations.Request}[name].model_fields
    rows = [
        [
            f"`{column.name}`",
            f"{column.type}{', may be null' * column.nullable}",
            str(meanings[column.name].description),
        ]
        for column in tables.TABLES[name]
    ]
    return _table(["Column", "Type", "Meaning"], rows)


def measures(kind: str) -> str:
    """Return the table of the numbers of a kind of workload, alone and in one direction.

    Of a program with different numbers for different settings it has all.
    """
    return _of_measures(usual_measures(kind))


def _of_measures(found: Iterable[measure.Measure]) -> str:
    rows = (
        [f"`{one.name}`", shown_unit(one.unit) or "none", one.better, one.help, one.source]
        for one in found
    )
    return _table(["Metric", "Unit", "Better", "Definition", "Source"], rows)


def tools(what: str) -> str:
    """Return a section for each program of the field: its ``settings``, or its ``measures``."""
    found = ((kind, WORKLOADS.get(kind)) for kind in sorted(WORKLOADS.own))
    section = {"settings": _settings_of, "measures": _numbers_of}[what]
    return "\n\n".join(section(kind, one) for kind, one in found if issubclass(one, Tool))


def _settings_of(_kind: str, tool: type[Tool[Any]]) -> str:
    return _section(tool.Settings)


def _section(model: type[BaseModel]) -> str:
    """Return a section for the settings of a kind."""
    name = model.__name__
    line, *_ = str(inspect.getdoc(model)).splitlines()
    return f"### {name}\n\n{line}\n\n{settings(name)}"


def layers(_argument: str | None = None) -> str:
    """Return a section for the settings of each layer."""
    return "\n\n".join(_section(LAYERS.settings(kind)) for kind in sorted(LAYERS.own))


def _numbers_of(kind: str, tool: type[Tool[Any]]) -> str:
    return f"#### {kind}\n\n{_of_measures(tool.output_measures)}"


def lines(kind: str) -> str:
    """Return the table of the files that make a program a workload, and how long they are."""
    data = f"tests/formats/data/{kind}"
    model = len(list((HERE.parent / data).glob("*.txt")))
    module = f"osmef/workloads/kinds/{kind}.py"
    length = len((HERE.parent / module).read_text().splitlines())
    rows = [[f"`{module}`", "settings, numbers, what runs where, its reader", f"{length} lines"]]
    rows.append([f"`{data}/`", "what it printed, and what is read of it", f"{model} pairs"])
    return _table(["File", "What it is", "Length"], rows)


def example(name: str) -> str:
    """Return a file of an example as a block of code, with its name."""
    path = EXAMPLES / name
    language = {".py": "python", ".toml": "toml", ".yaml": "yaml"}[path.suffix]
    return f'```{language} title="{name}"\n{path.read_text(encoding="utf-8")}```'


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
    "measures": measures,
    "tools": tools,
    "layers": layers,
    "lines": lines,
    "example": example,
}
