"""Bonds: several network cards as one (Linux, Documentation/networking/bonding)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field
from pydantic_core import PydanticCustomError

from osmef.errors import EndpointError
from osmef.layers.base import Counters, Layer, LayerEnd, Underlay, UnderlayEnd, peers_of
from osmef.layers.host import LayerHost, take_address
from osmef.layers.nics import find
from osmef.layers.root import KernelError, in_namespace
from osmef.results.measure import Better, Measure
from osmef.scenario.base import conflict
from osmef.scenario.fields import Family, Rate
from osmef.scenario.layers import LayerSettings
from osmef.units import counted

if TYPE_CHECKING:
    from osmef.scenario.model import Scenario

_WATCH_MS = 100
"""The kernel's interval of checking the carrier of a card, in milliseconds."""
_CARRIER_S = 10.0
_POLL_S = 0.1
_BURST_S = 0.01
_QUEUE_S = 0.1
_SMALLEST_BURST = 4 * 1514
_SMALLEST_QUEUE = 128 * 1024
_FEWEST = 100
"""With fewer TCP segments the share is unknown: UDP jobs send a few by TCP."""
_NOMINAL_MBIT = 10_000
"""The speed that is set on virtual cards: it limits nothing."""
_ZERO_MAC = "00:00:00:00:00:00"


class BondMode(StrEnum):
    """Bonding modes, by the kernel's names."""

    ROUND_ROBIN = "balance-rr"
    BACKUP = "active-backup"
    XOR = "balance-xor"
    LACP = "802.3ad"
    TLB = "balance-tlb"
    ALB = "balance-alb"


class Hash(StrEnum):
    """Transmit hash policies: the fields that select a card."""

    ETHERNET = "layer2"
    IP = "layer2+3"
    PORTS = "layer3+4"


_HASHED = {BondMode.XOR, BondMode.LACP, BondMode.TLB}
_ONE_SWITCH = {BondMode.TLB, BondMode.ALB}
_FIRST = {BondMode.BACKUP, BondMode.TLB, BondMode.ALB}
"""Modes that prefer a card, which has to be the same one at all ends where networks differ."""


class BondSettings(LayerSettings):
    """Several of the endpoints' free network cards as one interface."""

    kind: Literal["bond"] = Field(default="bond", description="the kind of layer")
    mode: BondMode = Field(
        default=BondMode.ROUND_ROBIN, description="how packets are spread over the cards"
    )
    nics: int = Field(
        default=2, ge=1, le=8, description="how many of the free network cards are joined"
    )
    hash: Hash | None = Field(
        default=None,
        description="what of a packet says by which card it goes, with balance-xor, 802.3ad and"
        " balance-tlb; by default the MAC addresses (`layer2`), so one card for each peer",
    )
    rate: Rate | None = Field(
        default=None,
        ge=1e6,
        le=3e10,
        description="rate to which each endpoint holds what it sends by each card; by default as"
        " fast as the card is",
    )

    carried_by: ClassVar[str] = "ethernet"
    needs_exclusive_nics: ClassVar[bool] = True
    shown_module: ClassVar[str] = "bonding"

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield conflicts with the rest of the scenario."""
        yield from super().problems(scenario)
        if self.hash is not None and self.mode not in _HASHED:
            yield conflict(
                f"a bond of mode {self.mode} does not look at packets",
                f"remove hash, or use mode: {', '.join(sorted(_HASHED))}",
                *("layer.hash", "layer"),
            )
        if scenario.stack[-1] is not self:
            yield conflict(
                "a bond is made of network cards, and can't be put on another layer",
                "write it last: [container, bond]",
                "layer",
            )
        for name, end in scenario.endpoints.given_ends.items():
            if end.nics < self.nics:
                yield conflict(
                    f"a bond joins {counted(self.nics, 'free network card')}, and {name} has"
                    f" {end.nics}",
                    f"write endpoints.{name}.nics: {self.nics} or more",
                    *(f"endpoints.{name}.nics", f"endpoints.{name}", "layer.nics", "layer"),
                )
        apart = any(cloud.nics_apart for cloud in scenario.clouds.values())
        if self.mode in _ONE_SWITCH and apart and self.nics > 1:
            yield conflict(
                f"cards of a bond of mode {self.mode} have to be on one network",
                "set provider.nic_networks: one",
                *("layer.mode", "layer"),
            )


def _measure(name: str, unit: str, text: str, source: str, **look: Any) -> Measure:
    return Measure(name=name, unit=unit, better=Better.LOWER, help=text, source=source, **look)


_KERNEL = "Linux, Documentation/networking/snmp_counter.rst"
_BUSIEST = Measure(
    name="bond_busiest_nic_percent", unit="%", better=Better.NEITHER,
    help="of the packets that the endpoints sent by their bonds, those by the busiest card",
    head="busiest\nNIC %", digits=".1f",
)  # fmt: skip
_OUT_OF_ORDER = _measure(
    "bond_out_of_order_percent", "%",
    "of the TCP segments that came, those that came before an earlier one; null of fewer than 100",
    f"TCPOFOQueue / InSegs, {_KERNEL}", head="out of\norder %", digits=".2f",
)  # fmt: skip
_DUPLICATE_ACKS = _measure(
    "bond_duplicate_acks", "1",
    "acknowledgements sent at once for segments that came out of order (RFC 5681, 4.2), but those"
    " that the kernel put together",
    f"TCPOFOQueue - TCPAckCompressed, {_KERNEL}", head="dup.\nACKs", digits=".0f",
)  # fmt: skip
_REORDERINGS = _measure(
    "bond_reorderings", "1", "how often a sender found that segments had been reordered",
    f"TCPSACKReorder + TCPRenoReorder + TCPTSReorder, {_KERNEL}",
)  # fmt: skip
_NEEDLESS = _measure(
    "bond_needless_retransmits", "1",
    "segments sent again that had come already, as their receivers said (DSACK, RFC 2883)",
    f"TCPDSACKRecv + TCPDSACKOfoRecv, {_KERNEL}",
)  # fmt: skip
_RETRANSMITTED = _measure(
    "bond_retransmitted_percent", "%",
    "of the TCP segments that were sent, those sent again; null of fewer than 100",
    f"RetransSegs / OutSegs, {_KERNEL}",
)  # fmt: skip


class Bond(Layer[BondSettings]):
    """Cards of the endpoint in a namespace, joined by a bond interface."""

    Settings = BondSettings
    module = "bonding"
    needs = (*Layer.needs, "free network cards: endpoints.*.nics")
    example = (
        "endpoints: {sender: {nics: 4}, receiver: {nics: 4}}\n"
        "sweep:\n  layer: [bare, {kind: bond, nics: 2}, {kind: bond, nics: 4}]"
    )
    measures = (
        *(_BUSIEST, _OUT_OF_ORDER, _DUPLICATE_ACKS, _REORDERINGS, _NEEDLESS, _RETRANSMITTED),
    )

    def probe(self, host: LayerHost, space: str, family: Family) -> None:  # noqa: ARG002
        """Try a bond without cards, and check that the cards exist. Raises EndpointError."""
        _check_first_process(host)
        try:
            host.new_link(space, self._words)
        except KernelError as error:
            raise self.lacking(error) from error
        if len(host.nics) < self.settings.nics:
            raise EndpointError(
                f"a bond joins {counted(self.settings.nics, 'free network card')}, and it has"
                f" {len(host.nics)}",
                where=host.name,
                cure="name more of them in the inventory's nics, or join fewer",
            )
        find(host.root, host.nics[: self.settings.nics], outlives_run=host.outlives_run)

    @property
    def _words(self) -> str:
        words = f"type bond mode {self.settings.mode} miimon {_WATCH_MS}"
        if self.settings.mode is BondMode.LACP:
            words += " lacp_rate fast"
        return words + (f" xmit_hash_policy {self.settings.hash}" if self.settings.hash else "")

    def up(self, underlay: Underlay) -> Mapping[str, LayerEnd]:
        """Raise it at all ends, and wait for the carrier of cards. Raises EndpointError."""
        made = underlay.each(lambda end: self._raise(end, underlay))
        underlay.each(lambda end: self._wait(end.host, made[end.name], underlay))
        underlay.each(lambda end: self._lead(end, made[end.name], underlay))
        return made

    def _raise(self, end: UnderlayEnd, underlay: Underlay) -> LayerEnd:
        host, own = end.host, underlay.inner[end.name]
        space = host.new_space()
        nics = host.acquire_nics(host.nics[: self.settings.nics], space)
        if self.settings.mode is BondMode.LACP:
            _see_duplex(host, space, [nic.device for nic in nics])
        mtu = self.settings.mtu or min(nic.mtu for nic in nics)
        bond = host.new_link(space, self._words)
        lines = [f"link set dev {bond} mtu {mtu}"]
        for nic in nics:
            lines += [f"link set dev {nic.device} {what}" for what in ("down", f"master {bond}")]
        if self.settings.mode in _FIRST:
            lines.append(f"link set dev {bond} type bond primary {nics[0].device}")
        host.root.ip(space, *lines, f"link set dev {bond} up")
        if (rate := self.settings.rate) is not None:
            _hold(host, space, [nic.device for nic in nics], rate)
        return LayerEnd(own, own, space, mtu, (bond,))

    def _lead(self, end: UnderlayEnd, attached: LayerEnd, underlay: Underlay) -> None:
        """Give the bond its address, and routes to the peers."""
        (bond,), space, own = attached.devices, attached.space, attached.address
        take_address(end.host.root, space, bond, own, underlay.width)
        routes = (
            f"route add {underlay.inner[peer]}/{underlay.width} dev {bond} src {own}"
            for peer in peers_of(underlay, end)
        )
        end.host.root.ip(space, *routes)

    def _wait(self, host: LayerHost, attached: LayerEnd, underlay: Underlay) -> None:
        """Wait for the carrier of all cards and, with 802.3ad, for LACP."""
        deadline = underlay.clock() + _CARRIER_S
        while (why := self._not_yet(host, attached)) is not None:
            if underlay.clock() > deadline:
                raise EndpointError(
                    why[0], where=host.name, cure=why[1] + "; or measure without the layer"
                )
            underlay.check()
            time.sleep(_POLL_S)

    def _not_yet(self, host: LayerHost, attached: LayerEnd) -> tuple[str, str] | None:
        """Return the missing condition of a bond, and its cure."""
        (device,) = attached.devices
        down = [
            str(card.get("ifname"))
            for card in host.root.ask(attached.space, "link", "show", "master", device)
            if "LOWER_UP" not in card.get("flags", [])
        ]
        if down:
            return f"no carrier at {', '.join(down)}", "see to the cable or the switch's port"
        (link,) = host.root.ask(attached.space, "-d", "link", "show", "dev", device)
        partner = link["linkinfo"]["info_data"].get("ad_info", {}).get("partner_mac", _ZERO_MAC)
        if self.settings.mode is BondMode.LACP and partner == _ZERO_MAC:
            cure = "make a group of its ports with LACP at the switch, or use another mode"
            return "the other side speaks no LACP (IEEE 802.3ad)", cure
        if "LOWER_UP" not in link.get("flags", []):
            return "the bond has no carrier", "see to the cards' cables"
        return None

    def facts(self, host: LayerHost, attached: LayerEnd) -> dict[str, Any]:
        """Return the state of each card."""
        (device,) = attached.devices
        cards = host.root.ask(attached.space, "-d", "link", "show", "master", device)
        return {"nics": {str(card["ifname"]): _card(card) for card in cards}}

    def outcome(self, changes: Sequence[Counters]) -> dict[str, float | None]:
        """Return its metrics of a trial, from the counters of each endpoint."""

        def total(*names: str) -> int | None:
            found = [one.tcp[name] for one in changes for name in names if name in one.tcp]
            return sum(found) if found else None

        early, joined = total("TCPOFOQueue"), total("TCPAckCompressed")
        duplicate = None if early is None else max(0, early - (joined or 0))
        return {
            _BUSIEST.name: _busiest(changes),
            _OUT_OF_ORDER.name: _percent(early, total("InSegs")),
            _DUPLICATE_ACKS.name: duplicate,
            _REORDERINGS.name: total("TCPSACKReorder", "TCPRenoReorder", "TCPTSReorder"),
            _NEEDLESS.name: total("TCPDSACKRecv", "TCPDSACKOfoRecv"),
            _RETRANSMITTED.name: _percent(total("RetransSegs"), total("OutSegs")),
        }


def _hold(host: LayerHost, space: str, devices: Sequence[str], rate_bps: float) -> None:
    """Shape each card to a rate: a token bucket of 10 ms, with a queue of 100 ms."""
    second = rate_bps / 8
    burst = round(max(second * _BURST_S, _SMALLEST_BURST))
    limit = round(max(second * _QUEUE_S, _SMALLEST_QUEUE))
    bucket = f"tbf rate {round(rate_bps)}bit burst {burst} limit {limit}"
    text = "".join(f"qdisc replace dev {device} root {bucket}\n" for device in devices)
    host.root.do(["tc", "-n", space, "-batch", "-"], text.encode())


def _see_duplex(host: LayerHost, space: str, devices: Sequence[str]) -> None:
    """Check that cards are full duplex: the kernel runs LACP only on these.

    Virtual NICs may report no duplex mode. It is set only on those that are deleted with their VM,
    because it could not be restored. Raises EndpointError.
    """
    host.root.ip(
        space, *(f"link set dev {device} up" for device in devices)
    )  # down, they report none
    for device in devices:
        argv = in_namespace(space, ["cat", f"/sys/class/net/{device}/duplex"])
        duplex = host.root.run(argv).stdout.decode(errors="replace").strip()
        if duplex == "full":
            continue
        words = ["ethtool", "-s", device, "speed", str(_NOMINAL_MBIT), "duplex", "full"]
        if host.outlives_run or host.root.run(in_namespace(space, words)).status:
            raise EndpointError(
                f"{device} reports {duplex or 'unknown'} duplex, and the kernel runs LACP"
                " (IEEE 802.3ad) on full-duplex cards only",
                where=host.name,
                cure=f"there: {' '.join(words)}; or use another mode",
            )


def _check_first_process(host: LayerHost) -> None:
    """Check that cards can be returned to the network namespace of process 1.

    Raises EndpointError.
    """
    seen = [
        host.root.do(["readlink", f"/proc/{process}/ns/net"]).strip() for process in ("1", "self")
    ]
    if seen[0] != seen[1]:
        raise EndpointError(
            "the login is in another network namespace than the first process, so a network card"
            " could not be given back",
            where=host.name,
            cure="log in to the machine itself; or measure without the layer",
        )


def _card(card: Mapping[str, Any]) -> dict[str, Any]:
    reported = card.get("linkinfo", {}).get("info_slave_data", {})
    keys = ("state", "mii_status", "link_failure_count")
    return {"mtu": card.get("mtu"), **{key: reported[key] for key in keys if key in reported}}


def _busiest(changes: Sequence[Counters]) -> float | None:
    """Return the mean share of the endpoints' busiest cards, in percent."""
    sent = [[card["tx_packets"] for card in one.interfaces.values()] for one in changes]
    all_sent = sum(map(sum, sent))
    return 100 * sum(max(cards, default=0) for cards in sent) / all_sent if all_sent else None


def _percent(part: int | None, whole: int | None) -> float | None:
    """Return a share in percent; None of a whole that is too small."""
    return None if part is None or (whole or 0) < _FEWEST else 100 * part / (whole or 1)
