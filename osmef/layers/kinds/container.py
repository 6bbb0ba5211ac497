"""Container of the endpoint's own engine, or of crun: network, file system and isolation."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from pydantic_core import PydanticCustomError

from osmef.errors import EndpointError, ReachError
from osmef.layers import crun
from osmef.layers.base import Layer, LayerEnd, Underlay, UnderlayEnd, peers_of, retry_while_in_use
from osmef.layers.host import LayerHost, try_address
from osmef.layers.kinds.virtual_ethernet import (
    NFT,
    Macvlan,
    MacvlanSettings,
    VethNat,
    VethNatSettings,
    into_bridge,
)
from osmef.layers.root import CRUN, ENGINES, InUseError
from osmef.layers.traces import forwarding_file
from osmef.scenario.base import conflict
from osmef.scenario.fields import Family
from osmef.scenario.layers import LayerSettings

if TYPE_CHECKING:
    from osmef.scenario.model import Scenario


class Bridged(VethNat):
    """The network that engines have by default: a bridge, and translated addresses."""

    def join(self, end: UnderlayEnd, outer: str, underlay: Underlay) -> str:
        """Attach the veth pair to a bridge of its own."""
        return into_bridge(end, outer, self.mtu(end, 0, underlay))


def network_for(network: str, mtu: int | None, ports: int) -> Layer[Any] | None:
    """Return the layer that is a container's network; None where it is that of the endpoint."""
    if network == "macvlan":
        return Macvlan(MacvlanSettings(mtu=mtu))
    if network == "bridge":
        return Bridged(VethNatSettings(mtu=mtu, ports=max(8, ports)))
    return None


_AGENT = "osmef-agent"
_OWN = ("host", "bridge", "macvlan")
_CURE = (
    "install podman or docker there (Debian: apt install podman), or start its service; or have"
    " crun there, for which a controller with apt-get makes a bundle, beside mount and unshare"
)


class ContainerSettings(LayerSettings):
    """A container of podman, docker or crun, with nothing in it but the agent, and no registry."""

    kind: Literal["container"] = Field(default="container", description="the kind of layer")
    engine: Literal["podman", "docker", "crun"] | None = Field(
        default=None,
        description="whose container it is; by default the first that is found, and crun at all"
        " endpoints where one of them has neither podman nor docker",
    )
    network: str = Field(
        default="bridge",
        pattern="^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        max_length=128,
        description="`host`, the engine's own `bridge`, `macvlan` on the interface that leads to"
        " the peers, or a network of the engine that is there, by its name, such as one of Weave or"
        " Calico. On another layer the container is in the network of that",
    )
    ports: int = Field(
        default=8,
        ge=4,
        le=200,
        description="how many data ports are published in the network `bridge`; a trial takes one"
        " for each of its servers",
    )

    carries = frozenset[str]()

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield conflicts with the rest of the scenario."""
        yield from super().problems(scenario)
        if self.engine == CRUN and self.network not in _OWN:
            yield conflict(
                f"crun has no network {self.network}",
                "use one of host, bridge and macvlan, or engine: podman or docker",
                *("layer.network", "layer.engine"),
            )
        bridged = self.network == "bridge" and self.engine != CRUN
        if bridged and scenario.family is Family.IPV6 and not scenario.stack[1:]:
            yield conflict(
                "a container engine's bridge carries IPv4 only",
                "use family: ipv4, another network of it, or engine: crun",
                *("layer.network", "layer", "family"),
            )
        if scenario.stack[-1] is self:
            return
        if self.network not in {"bridge", "host"}:
            yield conflict(
                "a container that is put on another layer is in the network of that one",
                "remove network, or the other layer",
                *("layer.network", "layer"),
            )
        if self.engine == "docker":
            yield conflict(
                "a container of docker can't be put on another layer",
                "use engine: podman, or measure the container alone",
                *("layer.engine", "layer"),
            )


class Container(Layer[ContainerSettings]):
    """An image with the agent alone; the login's home is mounted at its own path."""

    Settings = ContainerSettings
    needs = (*Layer.needs, "podman or docker; else crun, its own or a bundle, with mount")
    example = "layer: [{kind: container, network: host}]"

    def __init__(self, settings: ContainerSettings) -> None:
        super().__init__(settings)
        self._engines: dict[str, str] = {}
        self._ports = range(0)

    def probe(self, host: LayerHost, space: str, family: Family) -> None:
        """Look for an engine, and for the network that is named. Raises EndpointError."""
        del space, family
        engine = self._engine(host)
        if self.settings.network in _OWN:
            if engine == CRUN and self.settings.network == "bridge":
                crun.supply_program(host, NFT)
            return
        if engine == CRUN:
            raise EndpointError(
                f"neither podman nor docker works there, and crun has no network"
                f" {self.settings.network}",
                where=host.name,
                cure=f"use one of {', '.join(_OWN)}, or {_CURE.partition(';')[0]}",
            )
        done = host.root.run([engine, "network", "inspect", self.settings.network])
        if done.status:
            raise EndpointError(
                f"{engine} has no network {self.settings.network}",
                where=host.name,
                cure=f"name one of those that `{engine} network ls` shows, or make it there",
            )

    def _engine(self, host: LayerHost) -> str:
        """Return the engine of an endpoint. Raises EndpointError without one."""
        said = []
        for engine in [self.settings.engine] if self.settings.engine else (*ENGINES, CRUN):
            try:
                if engine == CRUN:
                    crun.supply_program(host)
                    crun.check(host)
                else:
                    host.root.do([engine, "info", "--format", "{{json .}}"])
            except ReachError:
                raise
            except EndpointError as error:
                said.append(error.message)
            else:
                return engine
        why = "; ".join(dict.fromkeys(said))
        raise EndpointError(f"no container engine: {why}", where=host.name, cure=_CURE)

    def up(self, underlay: Underlay) -> Mapping[str, LayerEnd]:
        """Start a container at each end. Raises EndpointError."""
        self._engines = underlay.each(lambda end: self._engine(end.host))
        if CRUN in self._engines.values():
            return self._up_by_crun(underlay)

        def attempt() -> Mapping[str, LayerEnd]:
            if self.settings.network == "bridge":
                self._ports = underlay.free_ports(self.settings.ports)
            return underlay.each(lambda end: self._start(end, underlay))

        return retry_while_in_use(underlay, attempt)

    def _up_by_crun(self, underlay: Underlay) -> Mapping[str, LayerEnd]:
        """Start a container of crun at each end, in a network that is made for it."""
        for end in underlay.ends.values():
            crun.supply_program(end.host)
            if self.settings.network == "bridge":
                crun.supply_program(end.host, NFT)
        self._engines = dict.fromkeys(underlay.ends, CRUN)
        network = None
        if all(end.below is None for end in underlay.ends.values()):
            network = network_for(self.settings.network, self.settings.mtu, self.settings.ports)
        under = network.up(underlay) if network is not None else None

        def start(end: UnderlayEnd) -> LayerEnd:
            at = under[end.name] if under is not None else end.below
            prefix = crun.start(end.host, at.space if at is not None else None)
            if under is not None:
                return replace(under[end.name], prefix=prefix)
            return self._attached(end, underlay, None, prefix)

        return underlay.each(start)

    def _start(self, end: UnderlayEnd, underlay: Underlay) -> LayerEnd:
        host, engine = end.host, self._engines[end.name]
        network = self._network(end, underlay)
        home = host.root.session.run(["pwd"]).stdout.decode().strip()

        def load(name: str) -> None:
            image = name.partition(":")[2]
            if host.root.run([engine, "image", "inspect", image]).status == 0:
                raise InUseError(f"{engine} has an image {image}", where=host.name)
            host.root.do([engine, "import", "-", image], image_of(host.program))

        image = host.make("image", lambda n: host.names.of_engine(engine, n), load)
        ids = [host.root.session.word(["id", flag]) for flag in ("-u", "-g")]
        # Not the run's directory alone: that is recreated where the connection was lost.
        keep = [f"--volume={home}:{home}", f"--workdir={home}", f"--user={':'.join(ids)}"]

        def start(name: str) -> None:
            words = ["run", "--detach", "--interactive", f"--name={name.partition(':')[2]}"]
            words += [
                "--stop-signal=KILL"
            ]  # otherwise podman waits 10 s for the first process to end
            what = [image.partition(":")[2], f"/{_AGENT}", "serve"]
            host.root.do([engine, *words, *network, *keep, *what])

        made = host.make("container", lambda n: host.names.of_engine(engine, n), start)
        name = made.partition(":")[2]
        prefix = (*host.root.prefix, engine, "exec", "--interactive", name)
        return self._attached(end, underlay, self._address(host, engine, name, end), prefix)

    def _network(self, end: UnderlayEnd, underlay: Underlay) -> list[str]:
        """Return the engine's arguments for a container's network, created if need be."""
        host, engine, wanted = end.host, self._engines[end.name], self.settings.network
        if end.space is not None:
            if engine != "podman":
                raise EndpointError(
                    f"a container of {engine} can't be put on another layer",
                    where=end.name,
                    cure="install podman there, or measure the container alone",
                )
            return [f"--network=ns:/run/netns/{end.space}"]
        if wanted == "bridge":
            _keep_forwarding(host)
            ports = f"{self._ports.start}-{self._ports.stop - 1}"
            return [f"--publish={ports}:{ports}/{protocol}" for protocol in ("tcp", "udp")]
        if wanted != "macvlan":
            return [f"--network={wanted}"]
        below, _ = host.way_to(None, end.peers[peers_of(underlay, end)[0]])

        try_address(host, below, underlay.inner[end.name], underlay.width)

        def make(name: str) -> None:
            own = name.partition(":")[2]
            words = ["network", "create", "--driver=macvlan", f"--opt=parent={below}"]
            net = [f"--subnet={underlay.subnet}", f"--gateway={underlay.gateway}"]
            host.root.do([engine, *words, *net, own])

        network = host.make("network", lambda n: host.names.of_engine(engine, n), make)
        return [f"--network={network.partition(':')[2]}", f"--ip={underlay.inner[end.name]}"]

    def _address(self, host: LayerHost, engine: str, name: str, end: UnderlayEnd) -> str | None:
        """Return the container's own address; None where it shares that of the underlay."""
        if end.space is not None or self.settings.network == "host":
            return None
        settings = json.loads(host.root.do([engine, "inspect", name]))[0]["NetworkSettings"]
        networks = (settings.get("Networks") or {}).values()
        found = [settings.get("IPAddress"), *(one.get("IPAddress") for one in networks)]
        address = next((str(one) for one in found if one), None)
        if address is None:
            raise EndpointError(
                f"the container has no address in the network {self.settings.network}",
                where=host.name,
                cure=f"see what `{engine} network inspect {self.settings.network}` says there",
            )
        return address

    def _attached(
        self, end: UnderlayEnd, underlay: Underlay, own: str | None, prefix: tuple[str, ...]
    ) -> LayerEnd:
        peer = peers_of(underlay, end)[0]
        if end.below is not None:
            return LayerEnd(
                end.below.address, end.below.bind, end.space, end.mtu, ports=end.below.ports,
                prefix=prefix,
            )  # fmt: skip
        seen = underlay.ends[peer].peers[end.name]
        if own is None:
            return LayerEnd(seen, end.own[peer], None, end.mtu, prefix=prefix)
        if self.settings.network == "bridge":
            return LayerEnd(seen, own, None, end.mtu, ports=self._ports, prefix=prefix)
        return LayerEnd(own, own, None, end.mtu, prefix=prefix)

    def facts(self, host: LayerHost, attached: LayerEnd) -> dict[str, Any]:
        """Return the engine, its version, its network, and what the container's interfaces have."""
        engine = self._engines[host.name]
        if engine == CRUN:
            return {"engine": engine, "network": self.settings.network, **crun.facts(host.root)}
        version = host.root.do([engine, "version", "--format", "{{.Client.Version}}"]).strip()
        del attached
        return {"engine": engine, "version": version, "network": self.settings.network}


def image_of(program: bytes) -> bytes:
    """Return a root file system with the agent alone, as a tar file."""
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for path in ("tmp", "proc", "sys", "dev", "etc"):
                directory = tarfile.TarInfo(path)
                directory.type, directory.mode = (
                    tarfile.DIRTYPE,
                    0o1777 if path == "tmp" else 0o755,
                )
                tar.addfile(directory)
            agent = tarfile.TarInfo(_AGENT)
            agent.size, agent.mode = len(program), 0o755
            tar.addfile(agent, io.BytesIO(program))
        return file.getvalue()


def _keep_forwarding(host: LayerHost) -> None:
    """Note that forwarding is off, as engines turn it on and leave it so.

    If some of its interfaces already forward, and not for layers of the run, it is left unchanged:
    the setting for all interfaces would reset them.
    """
    files = host.root.run(["grep", "-lx", "1", *_switches(host)]).stdout.decode().split()
    if not files:
        host.note("forwarding", "all=0")


def _switches(host: LayerHost) -> list[str]:
    names = [str(one["ifname"]) for one in host.root.ask(None, "link", "show")]
    ours = host.names.link(0)[:-1]
    theirs = [name for name in names if name not in host.forwards and not name.startswith(ours)]
    return [forwarding_file(name, 4) for name in ("all", *theirs)]
