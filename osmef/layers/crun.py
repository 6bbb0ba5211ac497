"""Containers of crun, an OCI runtime that needs no daemon: for endpoints without an engine.

It keeps nothing but a directory for each container, with the runtime itself in it, so that a
container is also removed after its run's directory is gone.
"""

from __future__ import annotations

import io
import json
import posixpath
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from osmef.errors import EndpointError, OsmefError, ReachError
from osmef.layers.root import CRUN, Root, error_of
from osmef.supply.program import Program

if TYPE_CHECKING:
    from osmef.layers.host import LayerHost

# It makes its usual directory as soon as it is asked, unless there is another one.
_VERSION = ("--root", "/run", "--version")
PROGRAM = Program(CRUN, how=("present", "bundle"), version=_VERSION)
AGENT = "osmef-agent"
PLACE = "/var/lib"
"""Where the directories of containers are: root's own, on a file system that programs run from."""
_LINKS = "/run"
"""Where a link leads to that of an endpoint which goes with the run, in the run's directory."""
_COMMAND, _ROOT, _OWN, _STATE = "command", "rootfs", "engine", "state"
_LOG = "log"
# Cgroups would be left with other settings than they had. It needs to see some nevertheless, and
# refuses those that are partly of version 1 and partly of 2, so it sees an empty directory.
# Without -n, mount would leave a directory of its own in /run.
_HIDE = 'mount -n -t tmpfs none /sys/fs/cgroup && exec "$@"'
_HIDING = ("unshare", "--mount", "sh", "-c", _HIDE, "sh")
_APART = 'exec "$@" </dev/null >/dev/null 2>"$0"'
"""A container keeps what its runtime has for input and output, and a session would wait for it."""
# What podman and docker leave to a root in a container.
_CAPABILITIES = [
    f"CAP_{name}"
    for name in (
        *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
]
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def supply_program(host: LayerHost, program: Program = PROGRAM) -> None:
    """Supply a program on an endpoint, its own or a bundle. Raises EndpointError."""
    try:
        host.supply_program(program)
    except (EndpointError, ReachError):
        raise
    except OsmefError as error:
        raise EndpointError(
            f"{program.name}: {error.message}", where=host.name, cure=error.cure
        ) from error
    host.root.do([program.name, *(program.version or ("--version",))])


def check(host: LayerHost) -> None:
    """Check that an endpoint has what hides its cgroups. Raises EndpointError."""
    for program in ("mount", "unshare"):
        host.root.do([program, "--version"])


def start(host: LayerHost, space: str | None) -> tuple[str, ...]:
    """Make a container in a network namespace; return what runs a program in it.

    Its first process waits for a start that never comes, and so needs no program. Raises
    EndpointError.
    """
    root, session = host.root, host.root.session
    home = session.run(["pwd"]).stdout.decode().strip()
    user, group = (int(session.word(["id", flag])) for flag in ("-u", "-g"))
    words: list[str] = []

    def make(name: str) -> None:
        own = name.partition(":")[2]
        folder = f"{PLACE}/{own}"
        if host.folder and not root.prefix:
            folder = f"{home}/{host.folder}/{own}"
            root.do(["ln", "-s", "--", folder, f"{_LINKS}/{own}"])
        root.do(["mkdir", "-m", "711", folder])
        config = json.dumps(_config(own, home, (user, group), space))
        root.do(["tar", "-xf", "-", "-C", folder], _bundle(host.program, config))
        words[:] = _own_copy(root, folder)
        root.do(["tee", f"{folder}/{_COMMAND}"], "\n".join(words).encode())
        _create(root, words, folder, own)

    made = host.make("container", lambda number: host.names.of_engine(CRUN, number), make)
    inside = [f"--cwd={home}", f"--user={user}:{group}", f"--env={_PATH}", f"--env=HOME={home}"]
    return (*root.prefix, *words, "exec", *inside, made.partition(":")[2])


def _create(root: Root, words: list[str], folder: str, own: str) -> None:
    done = root.run(["sh", "-c", _APART, f"{folder}/{_LOG}", *words, "create", "-b", folder, own])
    if done.status:
        log = root.do(["cat", f"{folder}/{_LOG}"]).encode()
        raise error_of(root.name, CRUN, replace(done, stderr=log))


def _own_copy(root: Root, folder: str) -> list[str]:
    """Copy the runtime into the container's directory; return how it is called there."""
    words = root.command_line([CRUN])
    before, own = posixpath.dirname(words[0]), f"{folder}/{_OWN}"
    if len(words) == 1:  # the endpoint's own, which is not copied
        own = before
    else:
        root.do(["cp", "-R", before, own])
    # Its name in argv is no program's name, or it would be replaced once more.
    words = [f"{own}/{CRUN}" if word == CRUN else word for word in words]
    copied = [own + word[len(before) :] if word.startswith(before) else word for word in words]
    return [*_HIDING, *copied, "--cgroup-manager=disabled", "--root", f"{folder}/{_STATE}"]


def remove(root: Root, own: str) -> None:
    """Remove a container and its directory. Raises EndpointError, ReachError."""
    link = f"{_LINKS}/{own}"
    leads = root.run(["readlink", link])
    folder = leads.stdout.decode().strip() if leads.status == 0 else f"{PLACE}/{own}"
    removal = root.run(["cat", f"{folder}/{_COMMAND}"])
    if removal.status == 0 and root.run(["test", "-e", f"{folder}/{_STATE}/{own}"]).status == 0:
        root.do([*removal.stdout.decode().splitlines(), "delete", "--force", own])
    root.do(["rm", "-rf", "--one-file-system", "--", folder, link])


def _bundle(program: bytes, config: str) -> bytes:
    """Return a bundle of the OCI as a tar file: its configuration, and the agent alone."""
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for path in ("", "/tmp", "/proc", "/sys", "/dev", "/etc"):  # noqa: S108 - of an image
                directory = tarfile.TarInfo(f"{_ROOT}{path}")
                directory.type = tarfile.DIRTYPE
                directory.mode = 0o1777 if path == "/tmp" else 0o755  # noqa: S108
                tar.addfile(directory)
            for name, data, mode in (
                (f"{_ROOT}/{AGENT}", program, 0o755),
                ("config.json", config.encode(), 0o644),
            ):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), mode
                tar.addfile(entry, io.BytesIO(data))
        return file.getvalue()


def _config(own: str, home: str, ids: tuple[int, int], space: str | None) -> dict[str, Any]:
    """Return a container's configuration (OCI Runtime Specification, config.md)."""
    held = dict.fromkeys(("bounding", "effective", "permitted"), _CAPABILITIES)
    if ids[0] != 0:
        held = {"bounding": _CAPABILITIES}
    namespaces = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
    sys: dict[str, Any] = _mount("/sys", "bind", "rbind", "ro", "nosuid", "noexec", "nodev")
    sys["source"] = "/sys"
    if space is not None:
        namespaces.append({"type": "network", "path": f"/run/netns/{space}"})
        sys = _mount("/sys", "sysfs", "ro", "nosuid", "noexec", "nodev")
    return {
        "ociVersion": "1.0.0",
        "hostname": own[:64],
        "root": {"path": _ROOT},
        "process": {
            "user": {"uid": ids[0], "gid": ids[1]},
            "args": [f"/{AGENT}", "serve"],
            "env": [_PATH, f"HOME={home}"],
            "cwd": home,
            "capabilities": held,
        },
        "mounts": [
            _mount("/proc", "proc"),
            _mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
            _mount("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777"),  # noqa: S108
            sys,
            *([{**_mount(home, "bind", "rbind", "rw"), "source": home}] if home != "/" else []),
        ],
        "linux": {"namespaces": namespaces},
    }


def _mount(where: str, kind: str, *options: str) -> dict[str, Any]:
    return {"destination": where, "type": kind, "source": kind, "options": list(options)}


def facts(root: Root) -> dict[str, Any]:
    """Return its version, and what containers of engines have beside."""
    version = root.do([CRUN, *_VERSION]).partition("\n")[0].rpartition(" ")[2].strip()
    return {"version": version, "cgroup": "none", "seccomp": "none"}
