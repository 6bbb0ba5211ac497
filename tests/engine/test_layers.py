"""What is told of layers before anything is made."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from osmef.engine.check import check_study
from osmef.engine.layer_endpoints import StackKey, raise_layer, reserve
from osmef.engine.layers import Layers, _Raised, _together, _try
from osmef.engine.station import Station
from osmef.errors import EndpointError, InputError
from osmef.layers.base import Layer, LayerEnd, Underlay, UnderlayEnd, features_of
from osmef.layers.host import DuplicateError
from osmef.layers.kinds.tunnels import Vxlan, VxlanSettings
from osmef.layers.root import Root
from osmef.remote.session import ProgramResult
from osmef.scenario.fields import Family
from osmef.scenario.load import load_text
from tests.layers.machines import recorded

if TYPE_CHECKING:
    from osmef.engine.journal import Journal
    from osmef.providers.base import Endpoint, RunContext
    from osmef.providers.sites import Sites
    from osmef.remote.session import SshSession

CLOUD = "{kind: openstack, boot: {image: debian}, default_flavor: small}"


def check(text: str) -> None:
    check_study(load_text(f"name: x\n{text}\n", Path("x.yaml")))


def test_a_layer_that_the_cloud_does_not_carry_is_a_scenario_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check(f"provider: {CLOUD}\nlayer: vxlan")
    monkeypatch.setattr("osmef.providers.local.provider.is_rootless", lambda: False)
    check("layer: gre")
    with pytest.raises(InputError) as refused:
        check(f"provider: {CLOUD}\nlayer: [vxlan, gre]")
    (problem,) = refused.value.problems
    assert (problem.line, problem.column) == (3, 8)
    assert "don't carry what the layer gre sends" in problem.message
    assert "vxlan" in problem.cure


def test_bonds_need_a_kernel_and_a_cloud_that_give_their_cards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bond = "endpoints: {sender: {nics: 2}, receiver: {nics: 2}}\nlayer: bond"
    monkeypatch.setattr("osmef.providers.local.provider.is_rootless", lambda: False)
    monkeypatch.setattr("osmef.providers.local.provider.has_module", lambda name: not name)
    with pytest.raises(InputError, match="this machine's kernel has no module bonding"):
        check(bond)
    monkeypatch.setattr("osmef.providers.local.provider.has_module", lambda _name: True)
    check(bond)
    check(f"provider: {CLOUD}\n{bond}")
    monkeypatch.setattr("osmef.providers.openstack.provider.OpenStackProvider.gives_nics", False)
    with pytest.raises(InputError, match="gives an endpoint one network card only"):
        check(f"provider: {CLOUD}\n{bond}")


@pytest.mark.parametrize("are_kept", [True, False])
def test_layers_deleted_with_their_endpoint_are_not_removed_before(*, are_kept: bool) -> None:
    underlay, _ = recorded(2)
    hosts = {name: end.host for name, end in underlay.ends.items()}
    hosts["a"].outlives_run, hosts["b"].outlives_run = True, False
    session = SimpleNamespace(
        run=lambda _argv, stdin: ProgramResult(0, stdin, b""), word=lambda _argv: "0"
    )
    for host in hosts.values():
        host.root = Root(cast("SshSession", session))
        host.note("forwarding", "all=0")
    there = {"lost": None, "end_agents": lambda _role: None, "session": session}
    stations = cast("dict[str, Station]", {name: SimpleNamespace(**there) for name in hosts})
    layers = Layers(stations, *cast("tuple[Sites, RunContext, Journal]", (None, None, None)))
    layers._raised[StackKey((), Family.IPV4, ("a", "b"))] = _Raised(hosts=hosts)
    assert layers.down(are_kept=are_kept) is None
    assert hosts["a"].traces == [], "its machine outlives the run"
    assert bool(hosts["b"].traces) == (not are_kept)


@pytest.mark.parametrize("family", Family)
def test_no_two_layers_have_the_same_addresses_inside(family: Family) -> None:
    """Of a macvlan in a namespace no route of its endpoint tells, nor of a container's."""
    underlay, _ = recorded(2)
    context = SimpleNamespace(check=lambda: None)
    layers = Layers({}, *cast("tuple[Sites, RunContext, Journal]", (None, context, None)))
    keys = [StackKey((), family, (f"a{n}", f"b{n}")) for n in range(100)]
    found = []
    for key in keys:
        layers._raised[key] = _Raised()
        ends = {
            name: UnderlayEnd(end.host, {}, {}, 1500)
            for name, end in zip(key.names, underlay.ends.values(), strict=True)
        }
        found.append(layers._underlay(key, ends))
    inner = [address for one in found for address in (*one.inner.values(), one.gateway)]
    assert len(set(inner)) == 300
    assert len({one.subnet for one in found}) == 100


def test_a_plugin_s_layer_that_the_kernel_lacks_is_named_with_a_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own ``probe`` need not say it."""
    page = (Path(__file__).parents[2] / "docs" / "adding-a-layer.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "osmef_ipvlan_of_the_page.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = import_module("osmef_ipvlan_of_the_page")
    layer = module.Ipvlan(module.IpvlanSettings())
    underlay, _ = recorded(2)
    host = underlay.ends["a"].host

    def run(_argv: list[str], stdin: bytes) -> ProgramResult:
        lacks = b"type ipvlan" in stdin
        return ProgramResult(int(lacks), b"", b"Error: Unknown device type." if lacks else b"")

    session = SimpleNamespace(name="a", run=run, word=lambda _argv: "0")
    host.root = Root(cast("SshSession", session))
    error = _try(layer, host, Family.IPV4)
    assert error is not None
    assert error.message == (
        "the layer ipvlan can't be raised, as the kernel has no ipvlan: Error: Unknown device type."
    )
    assert error.where == "a"
    assert "modprobe ipvlan" in str(error.cure)


def test_what_several_endpoints_lack_is_reported_once_with_their_names() -> None:
    errors = [
        EndpointError(f"no {what}", where=name, cure=f"install {what}")
        for name in "ab"
        for what in ("wg", "nft")
    ]
    found = _together([*errors, EndpointError("no ip", where="b")])
    assert found.message == "a, b: no wg; a, b: no nft; b: no ip"
    assert found.cure == "install wg; install nft"


_END = LayerEnd("198.18.0.1", "198.18.0.1", None, 1500)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "returned None"),
        ("x" * 999, "returned 'xxx"),
        ({}, "returned a mapping of nothing"),
        ({"a": _END}, "returned a mapping of a"),
        ({"a": _END, "b": None}, "returned a mapping with None"),
    ],
)
def test_a_plugin_s_layer_that_returns_no_ends_is_explained(returned: object, said: str) -> None:
    class Mine(Vxlan):
        def up(self, _underlay: Underlay) -> Any:
            return returned

    underlay, _ = recorded(2)
    with pytest.raises(EndpointError, match=re.escape(f"up() of vxlan {said}")) as caught:
        raise_layer(Mine(VxlanSettings()), underlay)
    assert caught.value.message.endswith("must return a LayerEnd for each endpoint, by its name")
    assert len(caught.value.message) < 300
    assert caught.value.where == "a, b"


@pytest.mark.parametrize("strangers", [1, 9])
def test_other_addresses_are_tried_when_the_first_are_in_use(strangers: int) -> None:
    underlay, _ = recorded(2)
    layers = Layers({}, *cast("tuple[Sites, RunContext, Journal]", (None, None, None)))
    layers._context = cast("RunContext", SimpleNamespace(check=lambda: None))
    key = StackKey((), Family.IPV4, ("a", "b"))
    layers._raised[key] = _Raised()
    session = SimpleNamespace(
        run=lambda _argv, stdin: ProgramResult(0, stdin, b""), word=lambda _argv: "0"
    )
    ends = {name: UnderlayEnd(end.host, {}, {}, 1500) for name, end in underlay.ends.items()}
    for end in ends.values():
        end.host.root = Root(cast("SshSession", session))
    tried = list[str]()

    def up(found: Underlay) -> dict[str, LayerEnd]:
        assert not any(end.host.traces for end in found.ends.values()), "the first try is removed"
        tried.append(found.subnet)
        for end in found.ends.values():
            end.host.note("forwarding", "all=0")
        if len(tried) <= strangers:
            raise DuplicateError("198.18.0.1 is in use on its link", where="a")
        return dict.fromkeys(found.ends, _END)

    layer = cast("Layer[Any]", SimpleNamespace(up=up))
    if strangers == 1:
        assert layers._up(layer, key, ends)[0].subnet == tried[1]
    else:
        with pytest.raises(DuplicateError):
            layers._up(layer, key, ends)
        assert len(tried) == 3
    assert len(set(tried)) == len(tried)


def ports() -> Station:
    """Return a station that knows its ports, and nothing else."""
    station = Station.__new__(Station)
    station.reserved = set()
    station._next_ports = {}
    return station


def test_ports_of_layers_are_not_used_by_jobs() -> None:
    one, other = ports(), ports()
    other.reserved = {20999}
    assert reserve([one, other], 2, {20998}) == range(20996, 20998)
    assert one.reserved == {20996, 20997}
    told = {one.data_ports(4) for _ in range(400)}
    assert not {port + n for port in told for n in range(4)} & one.reserved
    assert {one.data_ports(1, range(20996, 20998)) for _ in range(5)} == {20996, 20997}


def test_too_few_free_data_ports_are_reported() -> None:
    one = ports()
    login = SimpleNamespace(name="vm-1")
    one.endpoint = cast("Endpoint", SimpleNamespace(name="vm-1", login=login))
    one.reserved = set(range(20000, 21000))
    for take in (lambda: one.data_ports(1), lambda: reserve([one], 1, set())):
        with pytest.raises(EndpointError, match="too few data ports") as told:
            take()
        assert told.value.where == "vm-1"


def test_the_features_in_ethtool_output_are_parsed() -> None:
    text = (
        "Features for om1:\n"
        "rx-checksumming: on\n"
        "tx-checksumming: off [fixed]\n"
        "\ttx-checksum-ipv4: off [fixed]\n"
        "tcp-segmentation-offload: on\n"
    )
    assert features_of(text) == {
        "rx-checksumming": True,
        "tx-checksumming": False,
        "tx-checksum-ipv4": False,
        "tcp-segmentation-offload": True,
    }
    assert features_of("") is None


def test_the_local_provider_needs_root_for_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osmef.providers.local.provider.is_rootless", lambda: True)
    check("layer: bare")
    with pytest.raises(InputError, match="only root can raise a layer"):
        check("layer: vxlan")
