"""One machine of an inventory: login, lock, resources of a run, and their removal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address

from osmef.errors import EndpointError, NotFoundError, OsmefError, ProviderError, ReachError
from osmef.layers import traces
from osmef.layers.root import Root
from osmef.providers.base import Access, Endpoint, EndpointRequest, Resource, RunContext
from osmef.providers.static import lock
from osmef.remote.connection import QUIET_CURE
from osmef.remote.login import Login
from osmef.remote.session import SshSession
from osmef.remote.ssh_config import find_login
from osmef.remote.workdir import clear, remove, scratch_prefix
from osmef.scenario.clouds.static import InventoryHost

KIND = "static"
RESOURCE, SCRATCH = "directory", "scratch"
_CONNECT_S = 10.0
_CPU_DIGITS = 6
_NO_PROGRAM_CURE = (
    "let the shell's start files (~/.bashrc) neither end it nor change PATH, and the user run any"
    " program (no ForceCommand); without printenv write data_address into the inventory"
)
_WAYS = ("identity", "jump", "known_hosts")


def access_of(name: str, host: InventoryHost) -> Access:
    """Return the access of a machine's resources."""
    ways = {key: value for key in _WAYS if (value := getattr(host, key)) is not None}
    return {"host": name, "ssh": host.ssh, **ways}


def login_to(access: Access) -> Login:
    """Return the login of a machine, by the user's keys and OpenSSH configuration.

    Raises CredentialsError.
    """
    ways = {key: access.get(key) for key in _WAYS}
    return find_login(access["host"], access["ssh"], **ways)


def resource_of(holder: lock.LockOwner, access: Access) -> Resource:
    """Return the resource of a run on a machine: a directory, with a lock beside it."""
    name = f"osmef-{holder.run}-{holder.endpoint}"
    times = (float(holder.deadline), float(holder.made))
    return Resource(KIND, RESOURCE, name, holder.run, None, *times, access=access)


def scratch_of(holder: lock.LockOwner, access: Access, directory: str) -> Resource:
    """Return the resource of a program's directory on a machine."""
    name = f"{directory}/{scratch_prefix(holder.run, holder.endpoint)}*"
    return replace(resource_of(holder, access), kind=SCRATCH, name=name)


def _parts_of(resource: Resource) -> tuple[str, str | None]:
    """Return the endpoint of a resource, and the place of a scratch directory.

    Raises ProviderError.
    """
    endpoint, directory = resource.name.removeprefix(f"osmef-{resource.run}-"), None
    if resource.kind == SCRATCH:
        directory, _, pattern = resource.name.rpartition("/")
        endpoint = pattern.removeprefix(scratch_prefix(resource.run)).removesuffix("+*")
    whole = directory is None or (
        directory.startswith("/") and pattern == f"{scratch_prefix(resource.run, endpoint)}*"
    )
    if not whole or not all(map(lock.is_word, (resource.run, endpoint))):
        cure = "remove its line from the journal"
        raise ProviderError("no run has made this", where=resource.name[:80], cure=cure)
    return endpoint, directory


def holder_of(request: EndpointRequest, context: RunContext) -> lock.LockOwner:
    """Return the lock's holder for an endpoint of a run."""
    return lock.LockOwner(context.run, request.name, int(context.made), int(context.deadline))


def take(
    session: SshSession,
    request: EndpointRequest,
    context: RunContext,
    machines: Mapping[str, str],
) -> None:
    """Lock a machine for an endpoint. Raises CapacityError, ReachError.

    ``machines`` are the names of all machines of the run by endpoint.
    """
    lock.acquire(session, holder_of(request, context), machines)


def confirm(resource: Resource, kept: SshSession | None = None) -> None:
    """Check that a run still holds a machine's lock. Raises CapacityError.

    If it can't be read now, the trials will fail. ``kept`` is a session to it that may be open.
    """
    endpoint = resource.name.removeprefix(f"osmef-{resource.run}-")
    times = (int(resource.made or 0), int(resource.deadline or 0))
    with contextlib.suppress(ReachError):
        _, session = open_session(resource.access, kept)
        try:
            lock.confirm(session, lock.LockOwner(resource.run, endpoint, *times))
        finally:
            session.close()


def open_session(access: Access, kept: SshSession | None = None) -> tuple[Login, SshSession]:
    """Log in to a machine, or reuse an open session. Raises ReachError, CredentialsError."""
    login = replace(login_to(access), kept=kept)
    return login, SshSession.open(login, _CONNECT_S)


def release(resource: Resource, kept: SshSession | None = None) -> None:
    """Remove a run's files from a machine. Raises ProviderError, EndpointError."""
    endpoint, directory = _parts_of(resource)
    _, session = open_session(resource.access, kept)
    try:
        if directory is not None:
            clear(session, scratch_prefix(resource.run, endpoint), directory)
            return
        remove(session, resource.run, endpoint)
        lock.release(session, resource.run, endpoint)
    finally:
        session.close()


def take_down(resources: Sequence[Resource], gone: Callable[[Resource], None]) -> list[OsmefError]:
    """Remove the traces of layers from one machine, in this order, over one connection.

    Returns why some would not go.
    """
    errors: list[OsmefError] = []
    try:
        _, session = open_session(resources[0].access)
    except OsmefError as error:
        return [error]
    try:
        root = Root(session)
        for resource in resources:
            try:
                traces.remove(root, resource.run, traces.Trace(resource.kind, resource.name))
            except OsmefError as error:
                errors.append(error)
            else:
                gone(resource)
    finally:
        session.close()
    return errors


def is_of_layer(resource: Resource) -> bool:
    """Return whether a resource is a trace of a layer of its run."""
    return traces.is_of(resource.run, traces.Trace(resource.kind, resource.name))


def held(access: Access) -> list[Resource]:
    """Return the resources of a machine's holder, with traces of layers.

    Raises ReachError, CredentialsError.
    """
    _, session = open_session(access)
    try:
        holder = lock.holder(session)
        if holder is None:
            return []
        resource = replace(resource_of(holder, access), deadline=lock.end_of(session, holder))
        return [*_left_by_layers(session, resource, holder), resource]
    finally:
        session.close()


def _left_by_layers(
    session: SshSession, resource: Resource, holder: lock.LockOwner
) -> list[Resource]:
    """Return a run's traces of layers; none without the right to create any."""
    try:
        left = traces.traces_of_run(Root(session), traces.TraceNames(holder.run, holder.endpoint))
    except ReachError:
        raise
    except EndpointError:
        return []
    return [replace(resource, kind=one.kind, name=one.name, id=one.name) for one in left]


def endpoint_of(
    session: SshSession,
    login: Login,
    holder: lock.LockOwner,
    request: EndpointRequest,
    host: InventoryHost,
) -> Endpoint:
    """Return a machine as an endpoint of a run. Raises NotFoundError, ReachError."""
    counted = _cpus(session)
    found = addresses(session, host)
    first, *others = sorted(found, key=lambda address: ip_address(address).version)
    own = first if ip_address(first).version == 4 else None
    return Endpoint(
        request=request,
        resource_id=login.name,
        login=login,
        data_address=first,
        flavor=host.flavor,
        vcpus=counted,
        data_address6=next((a for a in (first, *others) if ip_address(a).version == 6), None),
        public_address=own and (host.public_address or own),
        listen_address=host.listen_address,
        nics=tuple(host.nics[: request.nics]),
        lock=(lock.PATH, str(holder)),
    )


def _cpus(session: SshSession) -> int | None:
    """Return its number of CPUs; None where it is unknown. Raises ReachError."""
    said = session.word(["nproc"])
    if not said:
        return None
    if not (said.isdigit() and len(said) <= _CPU_DIGITS):
        raise ReachError(
            f"its nproc prints no number of CPUs: {said}", where=session.name, cure=QUIET_CURE
        )
    return int(said)


def addresses(session: SshSession, host: InventoryHost) -> list[str]:
    """Return the measured addresses of a machine, at least one, one of each IP version.

    Raises NotFoundError, ReachError.
    """
    written = [one for one in (host.data_address, host.data_address6) if one is not None]
    if written:
        return written
    if host.interface is not None:
        return _addresses_of(session, host.interface)
    # sshd sets where the connection arrived: client, its port, server, its port (ssh(1)).
    words = session.run(["printenv", "SSH_CONNECTION"]).stdout.decode(errors="replace").split()
    try:
        return [str(ip_address(words[2]))]
    except (IndexError, ValueError):
        _check_programs(session)
        raise NotFoundError(
            "the address at which to measure it can't be read",
            where=session.name,
            cure="write its data_address or interface into the inventory",
        ) from None


def _addresses_of(session: SshSession, interface: str) -> list[str]:
    argv = ["ip", "-o", "addr", "show", "dev", interface, "scope", "global"]
    reported = session.run(argv)
    words = [line.split() for line in reported.stdout.decode(errors="replace").splitlines()]
    # NUMBER: NAME FAMILY ADDRESS/LENGTH ...; of each family the first one counts
    found = {
        line[2]: line[3].partition("/")[0]
        for line in reversed(words)
        if len(line) > 3 and _is_address(line[2], line[3].partition("/")[0])
    }
    if not found:
        _check_programs(session)
        said = reported.stderr.decode(errors="replace").strip()[:200]
        raise NotFoundError(
            f"the interface {interface} has no address" + (f": {said}" if said else ""),
            where=session.name,
            cure="check the name with `ip addr`, or write data_address into the inventory",
        )
    return list(found.values())


def _check_programs(session: SshSession) -> None:
    """Raise ReachError where no program can be run: printenv prints something in any login."""
    ended = session.run(["printenv"])
    if not ended.stdout:
        said = ended.stderr.decode(errors="replace").strip()[:200]
        raise ReachError(
            f"printenv printed nothing there: exit status {ended.status}"
            + f": {said}" * bool(said),
            where=session.name,
            cure=_NO_PROGRAM_CURE,
        )


def _is_address(family: str, text: str) -> bool:
    try:
        return family == {4: "inet", 6: "inet6"}[ip_address(text).version]
    except ValueError:
        return False
