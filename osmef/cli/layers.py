"""``osmef layers``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from osmef.cli.console import AsJson, err, out, print_json, print_note, reporting
from osmef.cli.workloads import print_measures, print_table, told_of
from osmef.kinds import LAYERS
from osmef.scenario.base import keys_of
from osmef.scenario.fields import ProviderNetwork
from osmef.scenario.schema import PLAIN, default_of, type_of
from osmef.supply.supply import plan as how_to_have

EPILOG = """Examples:

osmef layers               the layers that can be put between two endpoints, one per line

osmef layers wireguard     its settings with their defaults, what it needs, and an example"""

_OF_THE_PROVIDER = {
    ProviderNetwork.BARE: "Nothing: the network of the provider as it is.",
    ProviderNetwork.OVERLAY: "The provider's own overlay between two physical hosts.",
}


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One of them.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the layers: those of osmef, and those that installed packages bring."""
    with reporting(as_json):
        if name is not None:
            _show(name, as_json=as_json)
            return
        broken = LAYERS.broken()
        usable = [kind for kind in LAYERS.names if LAYERS.working(kind)]
    rows = [(str(kind), told, "osmef") for kind, told in _OF_THE_PROVIDER.items()]
    rows += [(kind, LAYERS.line(kind), LAYERS.package(kind)) for kind in usable]
    if as_json:
        listed = [dict(zip(("name", "what", "package"), row, strict=True)) for row in rows]
        print_json({"layers": listed, "broken": [vars(one) for one in broken]})
        return
    print_table(("layer", "what it is", "from"), rows)
    for one in broken:
        text = f"the layer {one.name} of the package {one.package} can't be used: {one.why}"
        print_note(err, text)


def _show(name: str, *, as_json: bool) -> None:
    if name in _OF_THE_PROVIDER:
        line = _OF_THE_PROVIDER[ProviderNetwork(name)]
        if as_json:
            print_json({"name": name, "what": line, "package": "osmef"})
        else:
            out.print(f"[bold]{name}[/]  {escape(line)}")
        return
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
        told = {"name": name, "what": LAYERS.line(name), "package": LAYERS.package(name)}
        listed = [dict(zip(heads, row, strict=True)) for row in rows]
        more = {"settings": listed, "needs": needs, "carried_by": settings.carried_by}
        more |= {"measures": told_of(kind.measures)}
        print_json({**told, **more, "families": families, "example": example})
        return
    out.print(f"[bold]{escape(name)}[/]  {escape(LAYERS.line(name))}\nfrom {LAYERS.package(name)}")
    print_table(("setting", "value", "default", "meaning"), rows)
    print_measures(kind.measures)
    for line in needs:
        out.print(f"needs {escape(line)}")
    out.print(f"\ncarried by {settings.carried_by}; carries {' and '.join(families)}")
    out.print(f"\n[bold]Example[/]\n\n{escape(example)}")
