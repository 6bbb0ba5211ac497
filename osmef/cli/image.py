"""``osmef image``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from osmef.cli.console import AsJson, err, print_json, reporting
from osmef.cli.console import out as console
from osmef.engine.cancellation import stop_on_signals
from osmef.errors import InputError
from osmef.images.build import BuildRequest, build_image
from osmef.images.guest_image import (
    DEFAULT_NAME,
    GuestImage,
    default_directory,
    image_directories,
    load_image,
)
from osmef.units import format_duration, format_size, parse_size

app = typer.Typer(
    help="Build and list guest images, made of a distribution's packages.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Directory = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="DIR",
        help="Directory that holds the images. Default: `~/.cache/osmef/images`.",
        show_default=False,
    ),
]

_BUILD_EPILOG = """Examples:

osmef image build                                      an image for the libvirt provider

osmef image build --name tools --packages iperf3,nuttcp

osmef image build --suite trixie --size 4GiB --force

The image appears whole or not at all, whatever interrupts the build. It needs mmdebstrap, \
e2fsprogs and qemu-utils, and about a minute. Exit codes: 0 done, 2 bad input, 3 a tool is missing \
or failed, 4 interrupted, or the disk is full."""

_LIST_EPILOG = """Examples:

osmef image list

osmef image list --json | jq '.images[].path'"""


@app.command(epilog=_BUILD_EPILOG)
def build(  # noqa: PLR0913, PLR0917 - one parameter an option
    name: Annotated[str, typer.Option(metavar="NAME", help="The image's name.")] = DEFAULT_NAME,
    packages: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="Packages to install beside the usual ones.", show_default=False
        ),
    ] = "",
    size: Annotated[str, typer.Option(metavar="SIZE", help="Size of a guest's disk.")] = "2GiB",
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Debian release. Default: this machine's own, or bookworm.",
            show_default=False,
        ),
    ] = None,
    output: Directory = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the image of that name, if there is one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build a guest image from a distribution's packages."""

    def notify(line: str) -> None:
        if not as_json:
            err.print(escape(line))

    with reporting(as_json), stop_on_signals(notify) as stop:
        image = build_image(
            BuildRequest(
                name=name,
                directory=output or default_directory(),
                suite=suite,
                packages=tuple(p.strip() for p in packages.split(",") if p.strip()),
                disk_bytes=_size(size),
                force=force,
                progress=notify,
                check=stop.check,
            )
        )
        if as_json:
            print_json(_record(image))
        else:
            took = format_duration(image.manifest.build_s)
            console.print(escape(f"built in {took}: {image.directory}"))


@app.command(name="list", epilog=_LIST_EPILOG)
def list_(output: Directory = None, as_json: AsJson = False) -> None:
    """List the guest images."""
    directory = output or default_directory()
    with reporting(as_json):
        images: list[GuestImage] = []
        damaged: list[tuple[Path, str]] = []
        for path in image_directories(directory):
            try:
                images.append(load_image(path))
            except InputError as error:
                damaged.append((path, error.message))
        if as_json:
            print_json(
                {
                    "images": [_record(image) for image in images],
                    "damaged": [{"path": str(path), "message": why} for path, why in damaged],
                }
            )
            return
        for image in images:
            console.print(escape(_line(image)))
        for path, why in damaged:
            console.print(escape(f"{path.name}: {why}"))
        if not images and not damaged:
            err.print(escape(f"no images in {directory}; make one: osmef image build"))


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        raise InputError(what, where="--size", cure=cure) from error


def _record(image: GuestImage) -> dict[str, Any]:
    return {"path": str(image.directory), **image.manifest.model_dump(mode="json")}


def _line(image: GuestImage) -> str:
    m = image.manifest
    size = format_size(sum(file.size_bytes for file in m.files.values()))
    made = f"{m.created:%Y-%m-%d %H:%M}"
    return f"{m.name}  {m.suite} {m.architecture}  kernel {m.kernel}  {size}  {made}"
