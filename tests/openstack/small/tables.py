"""What neutron knows: its tables, who sees which rows, quotas, lists."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from itertools import count
from typing import Any
from urllib.parse import urlencode

from tests.openstack.small.calls import (
    Call,
    Login,
    RefusalError,
    Reply,
    UnknownError,
    new_id,
    now,
    page,
)

Row = dict[str, Any]
QUOTAS = {
    "network": 100,
    "subnet": 100,
    "subnetpool": -1,
    "port": 500,
    "router": 10,
    "floatingip": 50,
    "rbac_policy": 10,
    "security_group": 10,
    "security_group_rule": 100,
}
"""What a project may have, by kind; -1 is no limit."""
LOST = {
    "network": ("NetworkNotFound", "Network {} could not be found."),
    "subnet": ("SubnetNotFound", "Subnet {} could not be found."),
    "port": ("PortNotFound", "Port {} could not be found."),
    "router": ("RouterNotFound", "Router {} could not be found"),
    "floatingip": ("FloatingIPNotFound", "Floating IP {} could not be found"),
    "security_group": ("SecurityGroupNotFound", "Security group {} does not exist"),
    "security_group_rule": (
        "SecurityGroupRuleNotFound",
        "Security group rule {} does not exist",
    ),
}
_PAGING = {"limit", "marker", "fields"}


@dataclass
class Tables:
    """All rows, by kind and id. ``changed`` is called when what the data plane does is another."""

    changed: Callable[[], None]
    rows: dict[str, dict[str, Row]] = field(default_factory=lambda: {kind: {} for kind in QUOTAS})
    limits: dict[str, dict[str, int]] = field(default_factory=dict)
    """What was set for a project."""
    _attributes: count[int] = field(default_factory=lambda: count(1))

    def add(self, kind: str, project: str, wanted: Mapping[str, Any], **more: Any) -> Row:
        """Add a row of a project. Raises RefusalError where it may have no more."""
        self.allow(kind, project)
        row = {
            "id": new_id(),
            "name": wanted.get("name", ""),
            "description": wanted.get("description", ""),
            "tenant_id": project,
            "project_id": project,
            "created_at": now(),
            "updated_at": now(),
            "revision_number": 0,
            "tags": [],
            **more,
        }
        self.rows[kind][row["id"]] = row
        return row

    def next_attribute(self) -> int:
        """Return a number for what neutron numbers."""
        return next(self._attributes)

    def allow(self, kind: str, project: str, number: int = 1) -> None:
        """Raise RefusalError where a project may not have as many more."""
        limit = self.limit(kind, project)
        if project and 0 <= limit < self.used(kind, project) + number:
            raise RefusalError(409, f"Quota exceeded for resources: ['{kind}'].", "OverQuota")

    def limit(self, kind: str, project: str) -> int:
        """Return how many a project may have."""
        return self.limits.get(project, {}).get(kind, QUOTAS[kind])

    def used(self, kind: str, project: str) -> int:
        """Return how many a project has."""
        return sum(row["project_id"] == project for row in self.rows[kind].values())

    def of(self, kind: str, **wanted: Any) -> list[Row]:
        """Return the rows that have these values."""
        there = self.rows[kind].values()
        return [r for r in there if all(r.get(key) == value for key, value in wanted.items())]

    def sees(self, who: Login, row: Row) -> bool:
        """Tell whether somebody may see a row."""
        ours = who.admin or row["project_id"] == who.project
        return ours or bool(row.get("router:external"))

    def find(self, kind: str, key: str, who: Login) -> Row:
        """Return a row. Raises RefusalError where nobody of this login would see one."""
        row = self.rows[kind].get(key)
        if row is None or not self.sees(who, row):
            name, text = LOST[kind]
            raise RefusalError(404, text.format(key), name)
        return row

    def own(self, kind: str, key: str, who: Login) -> Row:
        """Return a row that is to be changed. Raises RefusalError."""
        row = self.find(kind, key, who)
        if not who.admin and row["project_id"] != who.project:
            message = f"(rule:delete_{kind}) is disallowed by policy"
            raise RefusalError(403, message, "PolicyNotAuthorized")
        return row

    def listed(self, call: Call, kind: str, shown: Callable[[Row, Login], Row]) -> Reply:
        """Return the rows that a call asks for. Raises RefusalError."""
        who, plural = call.login, f"{kind}s"
        rows = [shown(row, who) for row in self.rows[kind].values() if self.sees(who, row)]
        filters = {key: values for key, values in call.query.items() if key not in _PAGING}
        known = {key for row in rows for key in row}
        if unknown := sorted(filters.keys() - known):
            if rows:
                raise UnknownError(f"filter of {unknown} for {plural}")
            filters = {}
        rows = [row for row in rows if all(_fits(row.get(k), v) for k, v in filters.items())]
        rows.sort(key=lambda row: str(row["id"]))
        found, marker = page(call, rows, lambda _: UnknownError("such marker"))
        fields = call.query.get("fields")
        answer: Row = {plural: [_some(dict(row), fields) for row in found]}
        if links := _links(call, found, marker):
            answer[f"{plural}_links"] = links
        return Reply(answer)

    def address(self, subnet: Row) -> str:
        """Return a free address of a subnet. Raises RefusalError."""
        ports = self.rows["port"].values()
        used = {ip["ip_address"] for port in ports for ip in port["fixed_ips"]}
        used |= {row["floating_ip_address"] for row in self.rows["floatingip"].values()}
        used.add(subnet["gateway_ip"])
        network = IPv4Network(subnet["cidr"])
        for address in network.hosts():
            if str(address) not in used:
                return str(address)
        message = f"No more IP addresses available on network {subnet['network_id']}."
        raise RefusalError(409, message, "IpAddressGenerationFailure")

    def add_port(
        self, project: str, subnet: Row, address: str, device: tuple[str, str], groups: list[str]
    ) -> Row:
        """Add a port with this address; ``device`` is what has it, and who that belongs to."""
        inside = bool(groups)
        mac = ":".join(f"{random.randrange(256):02x}" for _ in range(3))  # noqa: S311
        return self.add(
            "port",
            project,
            {},
            network_id=subnet["network_id"],
            admin_state_up=True,
            mac_address=f"fa:16:3e:{mac}",
            fixed_ips=[{"subnet_id": subnet["id"], "ip_address": address}],
            device_id=device[0],
            device_owner=device[1],
            security_groups=groups,
            port_security_enabled=inside,
            status="ACTIVE" if inside else "DOWN",
            allowed_address_pairs=[],
            extra_dhcp_opts=[],
            **{"binding:vnic_type": "normal", **_BINDING},
        )


_BINDING: Row = {
    "binding:host_id": "",
    "binding:profile": {},
    "binding:vif_details": {},
    "binding:vif_type": "unbound",
}
"""What only administrators see."""


def port_shown(row: Row, who: Login) -> Row:
    """Return a port as somebody sees it."""
    return row if who.admin else {k: v for k, v in row.items() if k not in _BINDING}


def _fits(value: Any, wanted: Iterable[str]) -> bool:
    return str(value).lower() in {one.lower() for one in wanted}


def _some(row: Row, fields: list[str] | None) -> Row:
    return row if fields is None else {key: row[key] for key in fields if key in row}


def _links(call: Call, found: list[Mapping[str, Any]], marker: str | None) -> list[Row]:
    """Return the links to the pages around, for who asks for pages."""
    if "limit" not in call.query:
        return []
    query = {key: value for key, value in call.query.items() if key != "marker"}
    links = []
    if marker:
        more = urlencode({**query, "marker": marker}, doseq=True)
        links.append({"rel": "next", "href": f"{call.here}{call.path}?{more}"})
    if found or "marker" in call.query:
        back = {**query, "marker": found[0]["id"] if found else call.first("marker")}
        more = urlencode({**back, "page_reverse": "True"}, doseq=True)
        links.append({"rel": "previous", "href": f"{call.here}{call.path}?{more}"})
    return links
