"""The cables of the cloud: a bridge for each network, a namespace for each router and guest.

All hangs in one network namespace, the lab, which is also the outside: it has the gateway's
address of the external network. What neutron knows is told as one Told; what is there already
stays, so connections live through changes elsewhere.
"""

from __future__ import annotations

import subprocess
from typing import TypedDict

LAB = "lab"


class Port(TypedDict):
    """A port of neutron; ips are written as 10.0.0.5/24."""

    id: str
    mac: str
    network: str
    device: str
    owner: str
    ips: list[str]
    groups: list[str]
    secured: bool


class Rule(TypedDict):
    """A rule of a security group; low and high are ports, or null for any."""

    group: str
    direction: str
    ethertype: str
    protocol: str | None
    low: int | None
    high: int | None
    prefix: str | None
    remote_group: str | None


class Router(TypedDict):
    """A router; gateway is the next hop outside, or null."""

    id: str
    gateway: str | None
    snat: bool


class Floating(TypedDict):
    """A floating IP in use."""

    address: str
    fixed: str
    router: str


class Told(TypedDict):
    """All that neutron knows; outside maps external networks to the lab's address in each."""

    outside: dict[str, str]
    ports: list[Port]
    rules: list[Rule]
    routers: list[Router]
    floating: list[Floating]


def run(argv: list[str], given: str = "") -> None:
    """Run a program with this input. Raises OSError with what it said."""
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}\n{given}")


def ip(namespace: str, *lines: str) -> None:
    """Run several commands of ip in a namespace, in one process."""
    run(["ip", "-n", namespace, "-batch", "-"], "\n".join(lines) + "\n")


def nft(namespace: str, rules: str) -> None:
    """Replace all rules of a namespace at once."""
    run(["ip", "netns", "exec", namespace, "nft", "-f", "-"], f"flush ruleset\n{rules}")


class Cables:
    """What is plugged in. Not for several threads at once."""

    def __init__(self) -> None:
        run(["ip", "netns", "add", LAB])
        ip(LAB, "link set lo up")
        self.told = Told(outside={}, ports=[], rules=[], routers=[], floating=[])
        self.bridges: set[str] = set()
        self.routers: dict[str, dict[str, Port]] = {}  # the ports that each has
        self.floating: dict[str, set[str]] = {}
        self.rules: dict[str, str] = {}  # of each namespace
        self.guests: dict[str, list[str]] = {}  # the ports that each has

    def apply(self, told: Told) -> None:
        """Make it so."""
        self.told = told
        for network, address in told["outside"].items():
            if self.bridge(network):
                ip(LAB, f"address replace {address} dev {_name('b', network)}")
        wanted = {router["id"] for router in told["routers"]}
        for gone in self.routers.keys() - wanted:
            run(["ip", "netns", "delete", _name("r", gone)])
            del self.routers[gone]
            self.floating.pop(gone, None)
            self.rules.pop(_name("r", gone), None)
        for router in told["routers"]:
            self._route(router)
        for guest in self.guests:
            self.protect(guest)

    def bridge(self, network: str) -> bool:
        """Have a bridge for this network; tell whether it was made now."""
        name = _name("b", network)
        if name in self.bridges:
            return False
        ip(LAB, f"link add {name} type bridge forward_delay 0", f"link set {name} up")
        self.bridges.add(name)
        return True

    def plug(self, namespace: str, device: str, port: Port, mtu: int) -> None:
        """Connect a namespace with the network of a port."""
        self.bridge(port["network"])
        near = _name("t", port["id"])
        peer = f"peer name {device} netns {namespace} address {port['mac']} mtu {mtu}"
        ip(
            LAB,
            f"link add {near} mtu {mtu} type veth {peer}",
            f"link set {near} master {_name('b', port['network'])} up",
        )
        addresses = [f"address add {address} dev {device}" for address in port["ips"]]
        ip(namespace, *addresses, f"link set {device} up")

    def protect(self, guest: str) -> None:
        """Let through to and from a guest what the security groups of its ports allow."""
        namespace = _name("g", guest)
        self._set_rules(namespace, _filter(self.told, set(self.guests[guest])))

    def _route(self, router: Router) -> None:
        namespace = _name("r", router["id"])
        if router["id"] not in self.routers:
            run(["ip", "netns", "add", namespace])
            ip(namespace, "link set lo up")
            run(["ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1"])
            self.routers[router["id"]] = {}
        have = self.routers[router["id"]]
        want = {p["id"]: p for p in self.told["ports"] if p["device"] == router["id"]}
        for key in [key for key, port in have.items() if want.get(key) != port]:
            ip(LAB, f"link delete {_name('t', key)}")
            if have.pop(key)["owner"].endswith("gateway"):
                self.floating.pop(router["id"], None)
        for key in want.keys() - have.keys():
            self.plug(namespace, _name("q", key), want[key], 1500)
            have[key] = want[key]
        gateway = [p for p in have.values() if p["owner"] == "network:router_gateway"]
        if gateway and router["gateway"]:
            self._route_outside(router, namespace, _name("q", gateway[0]["id"]))

    def _route_outside(self, router: Router, namespace: str, device: str) -> None:
        pairs = [f for f in self.told["floating"] if f["router"] == router["id"]]
        want = {pair["address"] for pair in pairs}
        have = self.floating.setdefault(router["id"], set())
        ip(
            namespace,
            f"route replace default via {router['gateway']} dev {device}",
            *(f"address add {address}/32 dev {device}" for address in want - have),
            *(f"address delete {address}/32 dev {device}" for address in have - want),
        )
        self.floating[router["id"]] = want
        to = [f"ip daddr {p['address']} dnat to {p['fixed']}" for p in pairs]
        out = [f"oifname {device} ip saddr {p['fixed']} snat to {p['address']}" for p in pairs]
        # What comes back to its own network by the floating address has to return this way.
        out += [f"ct status dnat ip saddr {p['fixed']} masquerade" for p in pairs]
        if router["snat"]:
            out.append(f"oifname {device} masquerade")
        self._set_rules(namespace, _nat(to, out))

    def _set_rules(self, namespace: str, rules: str) -> None:
        if self.rules.get(namespace) != rules:
            nft(namespace, rules)
            self.rules[namespace] = rules


def _name(kind: str, key: str) -> str:
    """Return the name of a device or namespace, which has 15 characters at most."""
    return f"{kind}-{key[:11]}"


def _nat(to: list[str], out: list[str]) -> str:
    return "\n".join(
        [
            "table ip nat {",
            "chain to { type nat hook prerouting priority -100;",
            *to,
            "}",
            "chain out { type nat hook postrouting priority 100;",
            *out,
            "}",
            "}\n",
        ]
    )


def _filter(told: Told, ports: set[str]) -> str:
    chosen = [port for port in told["ports"] if port["id"] in ports]
    if chosen and not any(port["secured"] for port in chosen):
        return ""
    groups = {group for port in chosen for group in port["groups"]}
    always = (
        "ct state established,related accept\nmeta l4proto ipv6-icmp accept\nudp dport 67-68 accept"
    )
    chains = []
    for direction, hook, device in (("ingress", "input", "iif"), ("egress", "output", "oif")):
        lines = [
            line
            for rule in told["rules"]
            if rule["group"] in groups and rule["direction"] == direction
            for line in _allowed(told, rule)
        ]
        chains += [
            f"chain {hook} {{ type filter hook {hook} priority 0; policy drop;",
            f"{device} lo accept\n{always}",
            *lines,
            "}",
        ]
    return "\n".join(["table inet groups {", *chains, "}\n"])


def _allowed(told: Told, rule: Rule) -> list[str]:
    """Return the rule as lines of nft, none for a group without members."""
    family = "ip" if rule["ethertype"] == "IPv4" else "ip6"
    side = "saddr" if rule["direction"] == "ingress" else "daddr"
    where = f"meta nfproto ipv{4 if family == 'ip' else 6}"
    if rule["remote_group"]:
        members = [p for p in told["ports"] if rule["remote_group"] in p["groups"]]
        peers = [
            a.split("/")[0] for p in members for a in p["ips"] if (":" in a) == (family == "ip6")
        ]
        if not peers:
            return []
        where = f"{family} {side} {{ {', '.join(sorted(peers))} }}"
    elif rule["prefix"] and not rule["prefix"].endswith("/0"):
        where = f"{family} {side} {rule['prefix']}"
    return [f"{where} {_what(rule)} accept"]


def _what(rule: Rule) -> str:
    protocol = rule["protocol"]
    if protocol is None:
        return ""
    if rule["low"] is None or protocol not in ("tcp", "udp"):
        return f"meta l4proto {protocol}"
    return f"{protocol} dport {rule['low']}-{rule['high']}"
