from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from osmef.errors import EndpointError, InputError
from osmef.layers.kinds.container import Container, ContainerSettings, image_of
from osmef.scenario.fields import Family
from osmef.scenario.load import load_text
from tests.layers import engine
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


def test_an_endpoint_without_an_engine_is_told(machines: Machines) -> None:
    shell = machines.shells["a"]
    shell.enter = (*shell.enter, "env", "PATH=/nowhere")
    with pytest.raises(EndpointError) as told:
        Container(ContainerSettings()).probe(machines.hosts["a"], "", Family.IPV4)
    assert "no program podman" in told.value.message
    assert "no program docker" in told.value.message
    assert "install podman or docker" in str(told.value.cure)


def test_a_network_that_the_engine_has_not_is_told(machines: Machines, tmp_path: Path) -> None:
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
    with pytest.raises(InputError, match="bridge carries IPv4 only"):
        study("container")


def container(machines: Machines, network: str) -> Container:
    for host in machines.hosts.values():
        host.program = b"an agent"
    return Container(ContainerSettings(network=network))


@pytest.mark.parametrize("network", ["host", "bridge", "macvlan"])
def test_what_was_made_of_an_engine_goes(machines: Machines, tmp_path: Path, network: str) -> None:
    engine.install(machines, tmp_path)
    before = machines.state()
    made = container(machines, network).up(machines.ground())
    assert bool(made["a"].ports) == (network == "bridge")
    assert {one.split("/")[2].partition(":")[0] for one in engine.has(tmp_path)} == {
        *("container", "image"),
        *(["network"] if network == "macvlan" else []),
    }
    assert any("--stop-signal=KILL" in argv for argv in machines.shells["a"].ran)
    machines.lower()
    assert engine.has(tmp_path) == []
    assert machines.state() == before


def test_an_engine_that_hangs_is_ended_and_told_and_not_asked_again(
    machines: Machines, tmp_path: Path
) -> None:
    machines.hosts["a"].root.removal_s = 0.1
    engine.install(machines, tmp_path, remove="exec sleep infinity")
    container(machines, "host").up(machines.ground())
    host = machines.hosts["a"]
    with pytest.raises(EndpointError, match=r"`podman rm` did not end within 0.1 s") as told:
        host.drop_all()
    assert told.value.where == "a"
    assert "podman ps --all" in str(told.value.cure)
    asked = len(machines.shells["a"].ran)
    with pytest.raises(EndpointError, match="was not tried, as it hangs"):
        host.drop_all()
    assert len(machines.shells["a"].ran) == asked
    assert [trace.kind for trace in machines.notes("a").standing] == ["image", "container"]
