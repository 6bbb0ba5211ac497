from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from osmef.agent.client import find_binary
from osmef.errors import EndpointError, InputError
from osmef.layers.base import Layer
from osmef.layers.kinds.container import Container, ContainerSettings, image_of
from osmef.layers.kinds.virtual_ethernet import Bridge, BridgeSettings, Macvlan, MacvlanSettings
from osmef.layers.root import CRUN
from osmef.layers.traces import Trace, TraceNames, remove, traces_of_run
from osmef.scenario.fields import Family
from osmef.scenario.load import load_text
from osmef.supply.program import this_architecture
from tests.layers import engine, runtime
from tests.layers.machines import Machines

# Says what an engine says of what it is asked, which nobody has made.
ENGINE = """#!/bin/sh
case "$1 $2" in
"info --format") echo '{}' ;;
"network inspect") echo "Error: no such network $3" >&2; exit 125 ;;
esac
"""


def test_the_image_has_the_agent_and_nothing_else() -> None:
    with tarfile.open(fileobj=io.BytesIO(image_of(b"\x7fELF"))) as tar:
        files = {one.name: one for one in tar if one.isfile()}
        assert list(files) == ["osmef-agent"]
        assert files["osmef-agent"].mode == 0o755
        content = tar.extractfile("osmef-agent")
        assert content is not None
        assert content.read() == b"\x7fELF"


def test_a_missing_container_engine_is_reported(machines: Machines) -> None:
    shell = machines.shells["a"]
    shell.enter = (*shell.enter, "env", "PATH=/nowhere")
    with pytest.raises(EndpointError) as told:
        Container(ContainerSettings()).probe(machines.hosts["a"], "", Family.IPV4)
    assert "no program podman" in told.value.message
    assert "no program docker" in told.value.message
    assert "install podman or docker" in str(told.value.cure)


def test_an_unknown_container_network_is_reported(machines: Machines, tmp_path: Path) -> None:
    podman = tmp_path / "podman"
    podman.write_text(ENGINE)
    podman.chmod(0o755)
    shell = machines.shells["a"]
    shell.enter = (*shell.enter, "env", f"PATH={tmp_path}:/usr/bin:/bin")
    settings = ContainerSettings(network="weave")
    with pytest.raises(EndpointError, match="podman has no network weave") as told:
        Container(settings).probe(machines.hosts["a"], "", Family.IPV4)
    assert "network ls" in str(told.value.cure)


def test_its_bridge_carries_ipv4_only() -> None:
    def study(layer: str) -> None:
        load_text(f"name: x\nfamily: ipv6\nlayer: {layer}\n", Path("x.yaml"))

    study("{kind: container, network: host}")
    study("[container, vxlan]")
    with pytest.raises(InputError, match="bridge carries IPv4 only") as told:
        study("container")
    assert "engine: crun" in str(told.value)
    study("{kind: container, engine: crun}")


def container(machines: Machines, network: str) -> Container:
    for host in machines.hosts.values():
        host.program = b"an agent"
    return Container(ContainerSettings(network=network))


@pytest.mark.parametrize("network", ["host", "bridge", "macvlan"])
def test_all_container_engine_resources_are_removed(
    machines: Machines, tmp_path: Path, network: str
) -> None:
    engine.install(machines, tmp_path)
    before = machines.state()
    made = container(machines, network).up(machines.underlay())
    assert bool(made["a"].ports) == (network == "bridge")
    assert {one.split("/")[2].partition(":")[0] for one in engine.has(tmp_path)} == {
        *("container", "image"),
        *(["network"] if network == "macvlan" else []),
    }
    assert any("--stop-signal=KILL" in argv for argv in machines.shells["a"].ran)
    machines.lower()
    assert engine.has(tmp_path) == []
    assert machines.state() == before


@pytest.mark.parametrize("network", ["bridge", "macvlan"])
def test_container_engine_resources_are_found_by_their_names(
    machines: Machines, tmp_path: Path, network: str
) -> None:
    engine.install(machines, tmp_path)
    container(machines, network).up(machines.underlay())
    for name, host in machines.hosts.items():
        left = traces_of_run(host.root, host.names)
        made = {trace for trace in machines.notes(name).existing if ":" in trace.name}
        assert made <= set(left)
        assert traces_of_run(host.root, TraceNames("another", name)) == []
        for trace in left:
            remove(host.root, "a-run", trace)
    assert engine.has(tmp_path) == []


def test_a_container_of_crun_is_found_by_its_directory(machines: Machines) -> None:
    host = machines.hosts["a"]
    machines.on("a", "mount", "-t", "tmpfs", "tmpfs", "/var/lib")
    folders = [host.names.space(7), TraceNames("another", "a").space(7), "osmef-notes"]
    machines.on("a", "mkdir", *(f"/var/lib/{folder}" for folder in folders))
    left = traces_of_run(host.root, host.names)
    assert left == [Trace("container", f"crun:{folders[0]}")]
    remove(host.root, "a-run", left[0])
    assert machines.on("a", "ls", "/var/lib").split() == sorted(folders[1:])


@pytest.mark.parametrize("container_first", [True, False])
def test_beside_a_layer_that_forwards_it_is_off_again_at_the_end(
    machines: Machines, tmp_path: Path, *, container_first: bool
) -> None:
    """The forwarding of the bridge's interfaces is the run's own, and no setting of the host."""
    engine.install(machines, tmp_path)
    before = machines.state()
    layers: list[Layer[Any]] = [Bridge(BridgeSettings()), container(machines, "bridge")]
    stacks = []
    for layer in reversed(layers) if container_first else layers:
        machines.hosts = {name: replace(host, traces=[]) for name, host in machines.hosts.items()}
        layer.up(machines.underlay())
        stacks.append(machines.hosts)
    for machines.hosts in reversed(stacks):
        machines.lower()
    assert machines.state() == before


def test_a_hanging_container_engine_is_killed_reported_and_not_called_again(
    machines: Machines, tmp_path: Path
) -> None:
    machines.hosts["a"].root.removal_s = 0.1
    engine.install(machines, tmp_path, remove="exec sleep infinity")
    container(machines, "host").up(machines.underlay())
    host = machines.hosts["a"]
    with pytest.raises(EndpointError, match=r"`podman rm` did not end within 0.1 s") as told:
        host.drop_all()
    assert told.value.where == "a"
    assert "podman ps --all" in str(told.value.cure)
    asked = len(machines.shells["a"].ran)
    with pytest.raises(EndpointError, match="was not tried, as it hangs"):
        host.drop_all()
    assert len(machines.shells["a"].ran) == asked
    assert [trace.kind for trace in machines.notes("a").existing] == ["image", "container"]


# --- without an engine: crun


@pytest.fixture(scope="module")
def crun_words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return runtime.words_of_runtime(tmp_path_factory.mktemp("crun"))


@pytest.mark.real("layers")
@pytest.mark.parametrize("network", ["host", "bridge", "macvlan"])
def test_without_an_engine_crun_runs_the_container_and_leaves_nothing(
    machines: Machines, crun_words: list[str], network: str
) -> None:
    runtime.install(machines, crun_words)
    for host in machines.hosts.values():
        host.program = find_binary(this_architecture().name).data
    before = [*machines.state(), *runtime.has(machines)]
    layer = Container(ContainerSettings(engine="crun", network=network))
    space = machines.hosts["a"].new_space()
    layer.probe(machines.hosts["a"], space, Family.IPV4)
    machines.hosts["a"].drop("netns", space)
    attached = layer.up(machines.underlay())
    for name, end in attached.items():
        assert end.prefix is not None
        assert machines.on(name, *end.prefix, "/osmef-agent", "--version").startswith("osmef-agent")
        facts = layer.facts(machines.hosts[name], end)
        assert (facts["engine"], facts["network"]) == ("crun", network)
        assert facts["version"][0].isdigit()
    assert (attached["a"].space is None) == (network == "host")
    assert machines.send(attached) == 100_000
    machines.lower()
    assert [*machines.state(), *runtime.has(machines)] == before
    assert not any(machines.notes(name).existing for name in "ab")


@pytest.mark.real("layers")
def test_on_another_layer_crun_uses_the_network_of_that_layer(
    machines: Machines, crun_words: list[str]
) -> None:
    runtime.install(machines, crun_words)
    for host in machines.hosts.values():
        host.program = find_binary(this_architecture().name).data
        host.folder = "var/lib"  # of a machine that goes with its run
    before = [*machines.state(), *runtime.has(machines), machines.on("a", "ls", "/run")]
    below = Macvlan(MacvlanSettings()).up(machines.underlay())
    made = Container(ContainerSettings(engine="crun")).up(machines.underlay(below=below))
    assert {name: end.space for name, end in made.items()} == {
        name: end.space for name, end in below.items()
    }
    prefix = made["a"].prefix
    assert prefix is not None
    assert machines.on("a", *prefix, "/osmef-agent", "--version").startswith("osmef-agent")
    machines.lower()
    after = [*machines.state(), *runtime.has(machines), machines.on("a", "ls", "/run")]
    assert after == before


@pytest.mark.real("layers")
def test_crun_is_brought_where_one_end_has_no_engine(
    machines: Machines, tmp_path: Path, crun_words: list[str]
) -> None:
    """Both ends have the same then, so that what is measured is one thing."""
    engine.install(machines, tmp_path)
    machines.shells["b"].enter = (*machines.shells["b"].enter, "env", "PATH=/usr/bin:/bin:/sbin")
    runtime.install(machines, crun_words)
    brought = []
    for host in machines.hosts.values():
        host.program = find_binary(this_architecture().name).data
        host.supply_program = lambda program, name=host.name: brought.append((name, program.name))  # type: ignore[misc]
    Container(ContainerSettings(network="host")).up(machines.underlay())
    assert {("a", "crun"), ("b", "crun")} == set(brought)
    assert engine.has(tmp_path) == []
    machines.lower()


def test_a_missing_mount_program_for_crun_is_reported(machines: Machines, tmp_path: Path) -> None:
    """Small systems have no mount, and crun none of its own."""
    crun = tmp_path / "crun"
    crun.write_text("#!/bin/sh\n")
    crun.chmod(0o755)
    shell = machines.shells["a"]
    shell.enter = (*shell.enter, "env", f"PATH={tmp_path}")
    with pytest.raises(EndpointError, match="no program mount") as told:
        Container(ContainerSettings(engine="crun")).probe(machines.hosts["a"], "", Family.IPV4)
    assert "mount" in str(told.value.cure)


def test_the_networks_of_crun_are_the_cure_where_it_alone_is_there(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Container, "_engine", lambda _self, _host: CRUN)
    with pytest.raises(EndpointError, match="crun has no network weave") as caught:
        Container(ContainerSettings(network="weave")).probe(machines.hosts["a"], "", Family.IPV4)
    assert str(caught.value.cure).startswith("use one of host, bridge, macvlan, or install podman")


def test_crun_does_not_support_named_networks() -> None:
    with pytest.raises(InputError, match="crun has no network weave"):
        load_text(
            "name: x\nlayer: {kind: container, engine: crun, network: weave}\n", Path("x.yaml")
        )
    load_text("name: x\nfamily: ipv6\nlayer: {kind: container, engine: crun}\n", Path("x.yaml"))
