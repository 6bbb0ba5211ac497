"""``osmef program``."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from osmef.cli.console import AsJson, err, print_json, reporting
from osmef.cli.console import out as console
from osmef.engine.cancellation import stop_on_signals
from osmef.errors import InputError
from osmef.kinds import WORKLOADS
from osmef.results.files import check_writable, write_atomically
from osmef.supply.bundle import BundleStore, Kept, ProgramBundle, default_directory, pack
from osmef.supply.program import NAMES, Program, find_architecture
from osmef.supply.supply import Supplier, build_from_source, make
from osmef.units import format_size
from osmef.workloads.tool import Tool

app = typer.Typer(
    help="Bundle or build programs that endpoints need, with all that they need to run.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Architecture = Annotated[
    str | None,
    typer.Option(
        "--arch",
        metavar="NAME",
        help=f"Architecture of the endpoints: {', '.join(NAMES)}. Default: this machine's.",
        show_default=False,
    ),
]

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write it to.", show_default=False),
]

_BUNDLE_EPILOG = """Examples:

osmef program bundle iperf3 -o iperf3.tar.gz

osmef program bundle dbench --file /usr/share/dbench/client.txt --arch aarch64

osmef program bundle ab --package apache2-utils --suite trixie -o ab.tar.gz

A bundle is made of the program's package of Debian and of what that depends on, fetched and \
verified by an apt of its own: it needs apt-get, dpkg-deb and the internet, and no root. It is \
kept in `~/.cache/osmef/programs`. Exit codes: 0 done, 2 bad input, 3 it can't be made, \
4 interrupted, or the file can't be written."""

_BUILD_EPILOG = """Examples:

osmef program build stream --source STREAM.tar.gz

osmef program build iozone --source https://example.org/iozone3_506.tar --sha256 114ce5c0...

osmef program build stream --source ~/src/stream --arch aarch64 -o stream.tar.gz

OSMeF has the build steps of the programs that its workloads need; the source is yours: an \
archive, a folder, a file such as stream.c, or a URL with its SHA-256. The program is static, and \
kept in `~/.cache/osmef/programs`: runs use it from then on, where an endpoint lacks it. It needs \
gcc, or `pip install ziglang` for other architectures. Exit codes: 0 done, 2 bad input, 3 it can't \
be built, 4 interrupted, or the file can't be written."""

_LIST_EPILOG = """Examples:

osmef program list

osmef program list --json | jq '.programs[].packages'"""

_REMOVE_EPILOG = """Examples:

osmef program remove dbench

osmef program remove dbench --arch aarch64

osmef program remove --all"""


@app.command(epilog=_BUNDLE_EPILOG)
def bundle(  # noqa: PLR0913, PLR0917 - one parameter an option
    name: Annotated[str, typer.Argument(metavar="NAME", help="The program's name.")],
    output: Output = None,
    arch: Architecture = None,
    package: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Debian package that contains it. Default: the package of that name.",
            show_default=False,
        ),
    ] = "",
    file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH", help="A data file of its package to take along. May be repeated."
        ),
    ] = None,
    library: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A library that it loads by itself, such as libnss_dns.so.2. May be repeated.",
        ),
    ] = None,
    with_package: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A further package that has such files. May be repeated."
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Debian release. Default: this machine's own, or bookworm.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild it from the newest packages.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bundle a program of a distribution's package for endpoints that have nothing."""
    with reporting(as_json), _making(as_json) as store:
        program = Program(
            name,
            package,
            files=tuple(file or ()),
            libraries=tuple(library or ()),
            packages=tuple(with_package or ()),
        )
        machine = find_architecture(arch or platform.machine())
        if output is not None:
            check_writable(output)
        made = make("bundle", program, machine, Supplier(store, suite=suite), again=force)
        _show(made, output, as_json=as_json)


@app.command(epilog=_BUILD_EPILOG)
def build(  # noqa: PLR0913, PLR0917 - one parameter an option
    name: Annotated[str, typer.Argument(metavar="NAME", help="The program's name.")],
    source: Annotated[
        str, typer.Option(metavar="PATH|URL", help="Its source code.", show_default=False)
    ],
    sha256: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="SHA-256 of the archive at the URL.", show_default=False),
    ] = None,
    output: Output = None,
    arch: Architecture = None,
    as_json: AsJson = False,
) -> None:
    """Build a program from source code that you have, as a static one for endpoints."""
    with reporting(as_json), _making(as_json) as store:
        program = _known_program(name)
        assert program.source is not None  # noqa: S101 - those are found
        is_url = "://" in source
        code = replace(
            program.source,
            url=source if is_url else None,
            sha256=sha256 and sha256.lower(),
            path=None if is_url else Path(source).expanduser().absolute(),
        )
        machine = find_architecture(arch or platform.machine())
        if output is not None:
            check_writable(output)
        _show(build_from_source(program, code, machine, Supplier(store)), output, as_json=as_json)


def _known_program(name: str) -> Program:
    """Return a program whose source users bring. Raises InputError."""
    kinds = (WORKLOADS.working(kind) for kind in WORKLOADS.names)
    tools = [kind for kind in kinds if kind is not None and issubclass(kind, Tool)]
    known = {one.name: one for tool in tools for one in tool.programs if one.source is not None}
    if name not in known:
        raise InputError(
            f"there are no build instructions for {name[:80]!r}",
            where="osmef program build",
            cure=f"name one of {', '.join(sorted(known)) or 'none'}",
        )
    return known[name]


@app.command(name="list", epilog=_LIST_EPILOG)
def list_(as_json: AsJson = False) -> None:
    """List the bundles that are kept, each checked."""
    with reporting(as_json):
        directory = default_directory()
        found = BundleStore(directory).bundles()
        if as_json:
            print_json(
                {
                    "programs": [
                        {"path": str(one.path), **_record(one.bundle)}
                        for one in found
                        if one.bundle is not None
                    ],
                    "damaged": [
                        {"path": str(one.path), "message": one.damage}
                        for one in found
                        if one.bundle is None
                    ],
                }
            )
            return
        for one in found:
            console.print(escape(_kept_line(one)))
        if not found:
            err.print(escape(f"no bundles in {directory}; make one: osmef program bundle iperf3"))


@app.command(epilog=_REMOVE_EPILOG)
def remove(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The program's name.", show_default=False),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only bundles for this architecture. Default: all architectures.",
            show_default=False,
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Remove those of all programs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove bundles that are kept; they are made again when they are needed."""
    with reporting(as_json):
        if (name is None) != all_:
            message = "no program is named to remove"
            if name is not None:
                message = "both a program and --all are given"
            raise InputError(
                message, where="osmef program remove", cure="name a program, or write --all"
            )
        gone = BundleStore(default_directory()).remove(name, arch)
        if name is not None and not gone:
            raise InputError(
                f"there is no bundle of {name!r}",
                where=str(default_directory()),
                cure="osmef program list shows what there is",
            )
        if as_json:
            print_json({"removed": [str(path) for path in gone]})
        for path in () if as_json else gone:
            console.print(escape(f"removed {path.name}"))


@contextmanager
def _making(as_json: bool) -> Iterator[BundleStore]:
    """Provide the user's bundle store with progress messages; Ctrl-C cancels."""

    def notify(line: str) -> None:
        if not as_json:
            err.print(escape(line))

    with stop_on_signals(notify) as stop:
        yield BundleStore(default_directory(), notify, stop.check)


def _show(made: ProgramBundle, output: Path | None, *, as_json: bool) -> None:
    """Write a bundle to a file, if wanted, and describe it."""
    if output is not None:
        write_atomically(output, pack(made.manifest, made.contents))
    if as_json:
        print_json({"path": output and str(output), **_record(made)})
    else:
        where = f": {output}" if output is not None else ""
        console.print(escape(_line(made) + where))


def _record(made: ProgramBundle) -> dict[str, Any]:
    pushed = sum(file.size_bytes for file in made.pushed.values())
    return {
        "sha256": made.sha256,
        "packed_bytes": made.packed_bytes,
        "pushed_bytes": pushed,
        **made.manifest.model_dump(mode="json"),
    }


def _line(made: ProgramBundle) -> str:
    m = made.manifest
    pushed = format_size(sum(file.size_bytes for file in made.pushed.values()))
    packages = [package.version for name, package in m.packages.items() if m.how == "bundle"]
    file = m.files.get(m.program)  # a text in another language has a name of its own
    main = file.package if file else None
    version = m.packages[main].version if main and packages else m.how
    size = f"{format_size(made.packed_bytes)} packed, {pushed} on an endpoint"
    return f"{m.program} {version}  {m.architecture}  {m.libc}  {size}  {made.sha256[:12]}"


def _kept_line(one: Kept) -> str:
    return _line(one.bundle) if one.bundle is not None else f"{one.path.name}: {one.damage}"
