"""The security groups of neutron, and their rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

from tests.openstack.small.calls import Call, Do, Login, RefusalError, Reply
from tests.openstack.small.tables import Row, Tables

_WHAT = (
    *("direction", "ethertype", "protocol", "port_range_min", "port_range_max"),
    *("remote_ip_prefix", "remote_group_id"),
)


@dataclass
class Security:
    """Groups and rules."""

    tables: Tables

    @property
    def routes(self) -> Mapping[str, Do]:
        """What is answered here."""
        groups, rules = "/v2.0/security-groups", "/v2.0/security-group-rules"
        return {
            f"GET {groups}": self._list,
            f"POST {groups}": self._make,
            f"DELETE {groups}/{{key}}": self._delete,
            f"GET {rules}": lambda c: self.tables.listed(c, "security_group_rule", _rule_shown),
            f"POST {rules}": self._make_rules,
            f"DELETE {rules}/{{key}}": self._delete_rule,
        }

    def have_default(self, project: str) -> Row:
        """Return the group that neutron makes for each project as soon as that needs one."""
        found = self.tables.of("security_group", project_id=project, name="default")
        if found:
            return found[0]
        made = self._group(project, {"name": "default", "description": "Default security group"})
        for family in ("IPv4", "IPv6"):
            self._rule(made, {"direction": "ingress", "ethertype": family}, made["id"])
        return made

    def _group(self, project: str, wanted: Row) -> Row:
        made = self.tables.add("security_group", project, wanted, stateful=True, shared=False)
        made["revision_number"] = 1
        for family in ("IPv4", "IPv6"):
            self._rule(made, {"direction": "egress", "ethertype": family})
        return made

    def _rule(self, group: Row, wanted: Row, remote: str | None = None) -> Row:
        prefix = wanted.get("remote_ip_prefix")
        made = self.tables.add(
            "security_group_rule",
            group["project_id"],
            wanted,
            security_group_id=group["id"],
            direction=wanted["direction"],
            ethertype=wanted.get("ethertype", "IPv4"),
            protocol=wanted.get("protocol"),
            port_range_min=wanted.get("port_range_min"),
            port_range_max=wanted.get("port_range_max"),
            remote_ip_prefix=prefix,
            remote_address_group_id=None,
            normalized_cidr=str(IPv4Network(prefix, strict=False)) if prefix else None,
            remote_group_id=wanted.get("remote_group_id", remote),
            standard_attr_id=self.tables.next_attribute(),
            belongs_to_default_sg=group["name"] == "default",
        )
        del made["name"]
        if "protocol" not in wanted:  # neutron's own
            made["description"] = None
        return made

    def _shown(self, group: Row, _who: Login) -> Row:
        rules = self.tables.of("security_group_rule", security_group_id=group["id"])
        return {**group, "security_group_rules": rules}

    def _list(self, call: Call) -> Reply:
        for project in call.query.get("project_id", [call.login.project]):
            if call.login.admin or project == call.login.project:
                self.have_default(project)
        return self.tables.listed(call, "security_group", self._shown)

    def _make(self, call: Call) -> Reply:
        project = call.body["security_group"].get("project_id", call.login.project)
        self.have_default(project)
        made = self._group(project, call.body["security_group"])
        return Reply({"security_group": self._shown(made, call.login)}, 201)

    def _delete(self, call: Call, key: str) -> Reply:
        row = self.tables.own("security_group", key, call.login)
        if row["name"] == "default" and not call.login.admin:
            message = "Insufficient rights for removing default security group."
            raise RefusalError(409, message, "SecurityGroupCannotRemoveDefault")
        if any(key in port["security_groups"] for port in self.tables.rows["port"].values()):
            raise RefusalError(409, f"Security Group {key} in use.", "SecurityGroupInUse")
        for rule in self.tables.of("security_group_rule", security_group_id=key):
            del self.tables.rows["security_group_rule"][rule["id"]]
        del self.tables.rows["security_group"][key]
        return Reply(status=204)

    def _make_rules(self, call: Call) -> Reply:
        body, who = call.body, call.login
        wanted: list[Row] = body.get("security_group_rules") or [body["security_group_rule"]]
        groups = [self.tables.own("security_group", w["security_group_id"], who) for w in wanted]
        for rule in wanted:
            self._refuse_twice(rule)
        self.tables.allow("security_group_rule", groups[0]["project_id"], len(wanted))
        made = [self._rule(group, rule) for group, rule in zip(groups, wanted, strict=True)]
        self.tables.changed()
        shown = [_rule_shown(one, who) for one in made]
        one_alone = "security_group_rule" in body
        answer = {"security_group_rule": shown[0]} if one_alone else {"security_group_rules": shown}
        return Reply(answer, 201)

    def _refuse_twice(self, wanted: Row) -> None:
        same = {key: wanted.get(key) for key in _WHAT}
        there = self.tables.of(
            "security_group_rule", security_group_id=wanted["security_group_id"], **same
        )
        if there:
            message = f"Security group rule already exists. Rule id is {there[0]['id']}."
            raise RefusalError(409, message, "SecurityGroupRuleExists")

    def _delete_rule(self, call: Call, key: str) -> Reply:
        self.tables.own("security_group_rule", key, call.login)
        del self.tables.rows["security_group_rule"][key]
        self.tables.changed()
        return Reply(status=204)


def _rule_shown(row: Row, _who: Login) -> Row:
    return {k: v for k, v in row.items() if k not in {"standard_attr_id", "tags"}}
