"""A container engine that makes nothing: what it would have is files, so that tests can look."""

from __future__ import annotations

from pathlib import Path

from tests.layers.machines import Machines

_PODMAN = """#!/bin/sh
cd {folder} || exit 1
gone() {{ rm "$1" 2>/dev/null || {{ echo "Error: no such thing: $1" >&2; exit 1; }}; }}
case "$1 $2" in
"info --format") echo '{{}}' ;;
"version --format") echo 0 ;;
"ps --all") ls | sed -n 's/^container://p' ;;
"images --format") ls | sed -n 's,^image:,localhost/,p' ;;
"network ls") echo podman; ls | sed -n 's/^network://p' ;;
"image inspect") test -e "image:$3" ;;
"import -") cat >/dev/null; : >"image:$3" ;;
"network inspect") echo "Error: no such network $3" >&2; exit 125 ;;
"network create") for name; do :; done; : >"network:$name" ;;
"network rm") gone "network:$3" ;;
"rm --force") {remove}; gone "container:$4" ;;
"rmi --force") gone "image:$3" ;;
"run --detach")
  case "$*" in *--publish=*) echo 1 >/proc/sys/net/ipv4/ip_forward ;; esac
  for word; do case $word in --name=*) : >"container:${{word#--name=}}" ;; esac; done ;;
"inspect "*) echo '[{{"NetworkSettings": {{"IPAddress": "10.88.0.7"}}}}]' ;;
*) echo "what is $*?" >&2; exit 2 ;;
esac
"""


def install(machines: Machines, folder: Path, remove: str = ":") -> None:
    """Have podman on each machine; ``remove`` is what it does before it removes a container."""
    for name, shell in machines.shells.items():
        bin_, has = folder / name / "bin", folder / name / "has"
        bin_.mkdir(parents=True)
        has.mkdir()
        podman = bin_ / "podman"
        podman.write_text(_PODMAN.format(folder=has, remove=remove))
        podman.chmod(0o755)
        shell.enter = (*shell.enter, "env", f"PATH={bin_}:/usr/sbin:/usr/bin:/sbin:/bin")


def has(folder: Path) -> list[str]:
    """Return what the engines of all machines have."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob("*/has/*"))
