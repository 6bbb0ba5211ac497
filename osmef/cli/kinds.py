"""``osmef workloads`` and ``layers``: the kinds that there are, and their settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Column, Table

from osmef.cli.console import AsJson, err, out, print_json, print_note, reporting
from osmef.kinds import LAYERS, WORKLOADS, KindError, Kinds
from osmef.results.measure import Measure, shown_unit
from osmef.scenario.base import keys_of
from osmef.scenario.fields import ProviderNetwork
from osmef.scenario.schema import PLAIN, default_of, type_of
from osmef.supply.supply import plan as how_to_have
from osmef.workloads.tool import Tool
from osmef.workloads.trial_workload import usual_measures

WORKLOADS_EPILOG = """Examples:

osmef workloads            what can be run, a line each

osmef workloads latency    its settings with their defaults, what it measures, and an example"""

_KIND = "kind"
_OF_MEASURE = {"name", "unit", "better", "help"}


def workloads_command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of a workload.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the workloads: those of osmef, and those that installed packages bring."""
    with reporting(as_json):
        if name is not None:
            _show(name, as_json=as_json)
            return
        _list(WORKLOADS, "workload", "what it measures", [], as_json=as_json)


def _list(
    kinds: Kinds, noun: str, what: str, rows: Sequence[tuple[str, str, str]], *, as_json: bool
) -> None:
    """Show the kinds of one sort behind some rows, and those that can't be used."""
    broken = kinds.broken()
    usable = [one for one in kinds.names if kinds.working(one)]
    shown = [*rows, *((one, kinds.line(one), kinds.package(one)) for one in usable)]
    if as_json:
        listed = [dict(zip(("name", "what", "package"), row, strict=True)) for row in shown]
        print_json({f"{noun}s": listed, "broken": [vars(one) for one in broken]})
        return
    print_table((noun, what, "from"), shown)
    for one in broken:
        text = f"the {noun} {one.name} of the package {one.package} can't be used: {one.why}"
        print_note(err, text)


def _show(name: str, *, as_json: bool) -> None:
    example = WORKLOADS.get(name).example or f"workload: {name}"
    rows = [
        (key, type_of(field, PLAIN), default_of(field, PLAIN), str(field.description or ""))
        for key, field in keys_of(WORKLOADS.settings(name)).items()
        if key != _KIND
    ]
    measures, programs = usual_measures(name), _programs(name)
    if as_json:
        heads = ("key", "value", "default", "meaning")
        settings = [dict(zip(heads, row, strict=True)) for row in rows]
        reported = {"name": name, "what": WORKLOADS.line(name), "package": WORKLOADS.package(name)}
        declared = measures_json(measures)
        print_json(
            {
                **reported,
                "settings": settings,
                "measures": declared,
                "needs": programs,
                "example": example,
            }
        )
        return
    out.print(
        f"[bold]{escape(name)}[/]  {escape(WORKLOADS.line(name))}\nfrom {WORKLOADS.package(name)}"
    )
    print_table(("setting", "value", "default", "meaning"), rows)
    print_measures(measures)
    for line in programs:
        out.print(f"needs {escape(line)}")
    if programs:
        out.print()
    out.print(f"[bold]Example[/]\n\n{escape(example)}")


def _programs(name: str) -> list[str]:
    """Describe the external programs that endpoints need, and their supply."""
    kind = WORKLOADS.get(name)
    known = kind.programs if issubclass(kind, Tool) else ()
    return [how_to_have(program, None) for program in known]


def measures_json(measures: Iterable[Measure]) -> list[dict[str, object]]:
    """Return measures as JSON."""
    return [one.model_dump(mode="json", include=_OF_MEASURE) for one in measures]


def print_measures(measures: Sequence[Measure]) -> None:
    """Print a table of measures, if there are any."""
    if measures:
        numbers = [(one.name, shown_unit(one.unit), one.better, one.help) for one in measures]
        print_table(("metric", "unit", "better", "meaning"), numbers)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose first column holds names."""
    name, *others = heads
    table = Table(Column(name, no_wrap=True), *others, box=box.SIMPLE_HEAD, padding=(0, 1))
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


LAYERS_EPILOG = """Examples:

osmef layers               the layers that can be put between two endpoints, one per line

osmef layers wireguard     its settings with their defaults, what it needs, and an example"""

_OF_THE_PROVIDER = {
    ProviderNetwork.BARE: "Nothing: the network of the provider as it is.",
    ProviderNetwork.OVERLAY: "The provider's own overlay between two physical hosts.",
}


def layers_command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of a layer.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the layers: those of osmef, and those that installed packages bring."""
    with reporting(as_json):
        if name is not None:
            _show_layer(name, as_json=as_json)
            return
        rows = [(str(kind), line, "osmef") for kind, line in _OF_THE_PROVIDER.items()]
        _list(LAYERS, "layer", "what it is", rows, as_json=as_json)


def _show_layer(name: str, *, as_json: bool) -> None:
    if name in _OF_THE_PROVIDER:
        line = _OF_THE_PROVIDER[ProviderNetwork(name)]
        if as_json:
            print_json({"name": name, "what": line, "package": "osmef"})
        else:
            out.print(f"[bold]{name}[/]  {escape(line)}")
        return
    if name not in LAYERS:
        raise KindError(
            f"there is no layer {name[:80]!r}",
            cure=f"name one of: {', '.join((*_OF_THE_PROVIDER, *LAYERS.names))}",
        )
    kind = LAYERS.get(name)
    settings = LAYERS.settings(name)
    example = kind.example or f"layer: {name}"
    rows = [
        (key, type_of(field, PLAIN), default_of(field, PLAIN), str(field.description or ""))
        for key, field in keys_of(settings).items()
        if key != "kind"
    ]
    families = sorted(settings.families)
    needs = [*kind.needs, *(how_to_have(program, None) for program in kind.programs)]
    needs += [f"the kernel's module {kind.module}"] if kind.module else []
    if as_json:
        heads = ("key", "value", "default", "meaning")
        reported = {"name": name, "what": LAYERS.line(name), "package": LAYERS.package(name)}
        listed = [dict(zip(heads, row, strict=True)) for row in rows]
        more = {"settings": listed, "needs": needs, "carried_by": settings.carried_by}
        more |= {"measures": measures_json(kind.measures)}
        print_json({**reported, **more, "families": families, "example": example})
        return
    out.print(f"[bold]{escape(name)}[/]  {escape(LAYERS.line(name))}\nfrom {LAYERS.package(name)}")
    print_table(("setting", "value", "default", "meaning"), rows)
    print_measures(kind.measures)
    for line in needs:
        out.print(f"needs {escape(line)}")
    out.print(f"\ncarried by {settings.carried_by}; carries {' and '.join(families)}")
    out.print(f"\n[bold]Example[/]\n\n{escape(example)}")
