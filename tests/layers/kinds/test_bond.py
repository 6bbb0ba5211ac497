from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count as counted
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import EndpointError
from osmef.layers.base import Counters, LayerEnd, Underlay
from osmef.layers.kinds.bond import Bond, BondMode, BondSettings
from osmef.remote.session import ProgramResult
from tests.layers.machines import Machines, Recorder, recorded

if TYPE_CHECKING:
    from osmef.remote.session import SshSession


class Cards(Recorder):
    """An endpoint with network cards, at which nothing is done."""

    carrier = True
    partner = "02:00:00:00:00:09"
    duplex = "unknown"
    has_ethtool = True

    def __init__(self) -> None:
        super().__init__()
        self.session = cast("SshSession", self)

    def run(self, argv: Sequence[str], stdin: bytes = b"") -> ProgramResult:
        done = self.do(argv, stdin).encode() if "-j" not in argv else b""
        return ProgramResult(0 if self.has_ethtool or "ethtool" not in argv else 127, done, b"")

    def do(self, argv: Sequence[str], stdin: bytes = b"") -> str:
        told = super().do(argv, stdin)
        return f"{self.duplex}\n" if argv[-1].endswith("/duplex") else told

    def ask(self, _space: str | None, *words: str) -> list[dict[str, object]]:
        cards: list[dict[str, object]] = [
            {
                "ifname": f"eth{n}",
                "address": f"52:54:00:00:00:0{n}",
                "mtu": 1500 - n,
                "flags": ["UP", "LOWER_UP"] if self.carrier else ["UP"],
            }
            for n in range(5)
        ]
        if "master" in words:
            return cards[1:3]
        if words[:4] == ("-d", "link", "show", "dev"):
            data = {"ad_info": {"partner_mac": self.partner}}
            return [{"flags": ["LOWER_UP"], "linkinfo": {"info_data": data}}]
        return cards if words in {("address", "show"), ("-d", "link", "show")} else []


def ground_of(count: int = 2) -> tuple[Underlay, dict[str, Cards]]:
    underlay, _ = recorded(count)
    roots = {name: Cards() for name in underlay.ends}
    nics = tuple(f"eth{n}" for n in range(1, 5))
    ends = {
        name: replace(end, host=replace(end.host, root=roots[name], nics=nics, outlives_run=False))
        for name, end in underlay.ends.items()
    }
    return replace(underlay, ends=ends), roots


def lines(root: Recorder) -> list[str]:
    return "".join(root.inputs).splitlines()


def test_cards_are_joined_each_endpoint_its_own() -> None:
    underlay, roots = ground_of(3)
    made = Bond(BondSettings(nics=2)).up(underlay)
    for name, root in roots.items():
        told = lines(root)
        bond, space = made[name].devices[0], made[name].space
        assert f"link set dev eth1 netns {space}" in told
        assert f"link set dev eth2 netns {space}" in told
        assert not any("eth3" in line for line in told)
        assert [line for line in told if "master" in line] == [
            f"link set dev eth{n} master {bond}" for n in (1, 2)
        ]
        assert sum(line.startswith("route add") for line in told) == 2
        kinds = [trace.kind for trace in underlay.ends[name].host.traces]
        assert kinds == ["netns", "nic", "nic"]
    assert made["a"].mtu == 1498, "that of the card with the smallest one"


def test_the_bond_settings_are_passed_to_the_kernel() -> None:
    underlay, roots = ground_of()
    settings = BondSettings.model_validate(
        {"mode": "balance-xor", "hash": "layer3+4", "mtu": 9000, "rate": "10Mbit/s"}, strict=False
    )
    made = Bond(settings).up(underlay)
    told = lines(roots["a"])
    assert any(line.endswith("xmit_hash_policy layer3+4") for line in told)
    assert any("mode balance-xor" in line for line in told)
    assert f"link set dev {made['a'].devices[0]} mtu 9000" in told
    bucket = "tbf rate 10000000bit burst 12500 limit 131072"
    held = [line for line in told if line.startswith("qdisc")]
    assert held == [f"qdisc replace dev eth{n} root {bucket}" for n in (1, 2)]


def test_the_first_card_is_preferred_at_all_ends_where_one_is() -> None:
    for mode in BondMode:
        underlay, roots = ground_of()
        Bond(BondSettings(mode=mode)).up(underlay)
        preferred = [line for line in lines(roots["b"]) if "primary eth1" in line]
        assert bool(preferred) == (mode in {BondMode.BACKUP, BondMode.TLB, BondMode.ALB})


@pytest.mark.parametrize(
    ("mode", "lacking", "told"),
    [
        (BondMode.ROUND_ROBIN, {"carrier": False}, "no carrier at eth1, eth2"),
        (BondMode.LACP, {"partner": "00:00:00:00:00:00"}, "speaks no LACP"),
    ],
)
def test_the_reason_why_a_bond_has_no_carrier_is_reported(
    mode: BondMode, lacking: Mapping[str, object], told: str
) -> None:
    underlay, roots = ground_of()
    minutes = replace(underlay, clock=counted(step=60).__next__)
    for name, value in lacking.items():
        setattr(roots["b"], name, value)
    with pytest.raises(EndpointError, match=told) as refused:
        Bond(BondSettings(mode=mode)).up(minutes)
    assert refused.value.where == "b"
    assert "measure without the layer" in str(refused.value.cure)


@pytest.mark.parametrize("duplex", ["full", "unknown"])
def test_the_duplex_of_nics_is_set_for_lacp_when_unknown(duplex: str) -> None:
    for mode in (BondMode.LACP, BondMode.ROUND_ROBIN):
        underlay, roots = ground_of()
        roots["a"].duplex = roots["b"].duplex = duplex
        Bond(BondSettings(mode=mode)).up(underlay)
        set_to = [argv[-5:] for argv in roots["a"].argvs if "ethtool" in argv]
        wanted = [[f"eth{n}", "speed", "10000", "duplex", "full"] for n in (1, 2)]
        assert set_to == (wanted if (mode, duplex) == (BondMode.LACP, "unknown") else [])


@pytest.mark.parametrize(("outlives_run", "has_ethtool"), [(True, True), (False, False)])
def test_a_duplex_that_cannot_be_set_is_reported(*, outlives_run: bool, has_ethtool: bool) -> None:
    underlay, roots = ground_of()
    roots["b"].has_ethtool = has_ethtool
    ends = dict(underlay.ends)
    ends["b"] = replace(ends["b"], host=replace(ends["b"].host, outlives_run=outlives_run))
    with pytest.raises(EndpointError, match="eth1 reports unknown duplex") as refused:
        Bond(BondSettings(mode=BondMode.LACP)).up(replace(underlay, ends=ends))
    assert refused.value.where == "b"
    assert "ethtool -s eth1 speed 10000 duplex full" in str(refused.value.cure)


def test_too_few_nics_are_reported_before_setup() -> None:
    underlay, _ = ground_of()
    host = replace(underlay.ends["a"].host, nics=("eth1",))
    with pytest.raises(EndpointError, match="joins 2 free network cards, and it has 1"):
        Bond(BondSettings()).probe(host, "space", underlay.family)


def test_an_unusable_network_namespace_is_reported_before_bond_support(machines: Machines) -> None:
    host = machines.hosts["a"]
    with pytest.raises(EndpointError) as told:
        Bond(BondSettings()).probe(host, host.new_space(), machines.underlay().family)
    # The first process of the namespaces is not in those of the machine: that is told first.
    assert "another network namespace than the first process" in told.value.message


def change(cards: Sequence[int], **tcp: int) -> Counters:
    sent = {"rx_bytes": 0, "rx_packets": 0, "tx_bytes": 0}
    return Counters({f"eth{n}": {**sent, "tx_packets": many} for n, many in enumerate(cards)}, tcp)


def test_bond_metrics_are_computed_from_the_counters() -> None:
    found = Bond(BondSettings()).outcome(
        [
            change([30, 10], OutSegs=200, RetransSegs=10, InSegs=50, TCPSACKReorder=3),
            change([20, 20], OutSegs=50, InSegs=150, TCPOFOQueue=40, TCPAckCompressed=15),
        ]
    )
    assert found == {
        "bond_busiest_nic_percent": 62.5,
        "bond_out_of_order_percent": 20.0,
        "bond_duplicate_acks": 25,
        "bond_reorderings": 3,
        "bond_needless_retransmits": None,
        "bond_retransmitted_percent": 4.0,
    }


def test_no_retransmission_share_is_given_for_few_segments() -> None:
    few = Bond(BondSettings()).outcome([change([1], InSegs=99, OutSegs=20, RetransSegs=1)])
    assert few["bond_retransmitted_percent"] is None
    assert few["bond_out_of_order_percent"] is None


cards = st.lists(st.integers(0, 10**12), min_size=1, max_size=8)


@given(st.lists(cards, min_size=1, max_size=4))
def test_the_busiest_card_has_its_share_at_least(sent: list[list[int]]) -> None:
    found = Bond(BondSettings()).outcome([change(one) for one in sent])
    share = found["bond_busiest_nic_percent"]
    if not any(map(any, sent)):
        assert share is None
    else:
        assert share is not None
        assert 100 / max(map(len, sent)) - 1e-9 <= share <= 100 + 1e-9


def test_every_metric_of_a_bond_is_declared() -> None:
    told = Bond(BondSettings()).outcome([change([1, 1])])
    assert list(told) == [measure.name for measure in Bond.measures]
    assert json.dumps(told)


def test_it_is_named_by_what_is_set() -> None:
    assert BondSettings().label == "bond"
    assert (
        BondSettings.model_validate({"nics": 4, "rate": "20Mbit/s"}).label
        == "bond(nics=4 rate=20Mbit/s)"
    )


def test_traffic_is_measured_at_the_inner_address_of_the_bond() -> None:
    underlay, _ = ground_of()
    made = Bond(BondSettings()).up(underlay)
    assert isinstance(made["a"], LayerEnd)
    assert made["a"].address == made["a"].bind == underlay.inner["a"]
