from __future__ import annotations

import pytest

from osmef.layers.kinds.virtual_ethernet import Bridge, BridgeSettings
from osmef.layers.traces import ROUTES, remove, traces_of_run
from osmef.scenario.fields import Family
from tests.layers.machines import Machines, check_whole_life, raised


@pytest.mark.parametrize("family", Family)
def test_the_layer_is_set_up_carries_traffic_and_is_removed(
    machines: Machines, family: Family
) -> None:
    attached = check_whole_life(machines, lambda: Bridge(BridgeSettings()), family)
    assert attached["a"].mtu == 1500


def test_ipv6_settings_of_a_single_interface_are_restored(machines: Machines) -> None:
    for key, value in (("forwarding", "1"), ("accept_ra", "0")):
        path = f"/proc/sys/net/ipv6/conf/data0/{key}"
        machines.on("a", "sh", "-c", f"echo {value} > {path}")
    check_whole_life(machines, lambda: Bridge(BridgeSettings()), Family.IPV6)


def test_an_endpoint_that_passes_packets_of_ipv6_on_is_left_so(machines: Machines) -> None:
    machines.on("a", "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
    check_whole_life(machines, lambda: Bridge(BridgeSettings()), Family.IPV6)
    assert "ipv6" not in {trace.kind for trace in machines.notes("a").seen}


def test_it_carries_ipv6_where_new_interfaces_have_none(machines: Machines) -> None:
    for name in "ab":
        switch = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
        machines.on(name, "sh", "-c", f"echo 1 > {switch}")
    check_whole_life(machines, lambda: Bridge(BridgeSettings()), Family.IPV6)


@pytest.mark.parametrize("family", Family)
def test_its_routes_are_found_without_a_journal(machines: Machines, family: Family) -> None:
    def routes() -> list[str]:
        shown = machines.on("a", "ip", "route", "show", "protocol", ROUTES)
        shown += machines.on("a", "ip", "-6", "route", "show", "protocol", ROUTES)
        return [line.split()[0] for line in shown.splitlines()]

    raised(machines, Bridge(BridgeSettings()), family)
    machines.on("a", "ip", "route", "add", "198.51.100.0/24", "dev", "data0", "proto", ROUTES)
    assert len(routes()) == 2
    host = machines.hosts["a"]
    for trace in traces_of_run(host.root, host.names):
        remove(host.root, "a-run", trace)
    assert routes() == ["198.51.100.0/24"], "nobody's but ours"
