from __future__ import annotations

import re

import pytest

from osmef.layers.kinds.tunnels import Ipsec, IpsecSettings
from osmef.layers.traces import Trace, is_of
from osmef.scenario.fields import Family
from tests.layers.machines import Machines, check_whole_life, recorded


@pytest.mark.parametrize("family", Family)
def test_the_layer_is_set_up_carries_traffic_and_is_removed(
    machines: Machines, family: Family
) -> None:
    attached = check_whole_life(machines, lambda: Ipsec(IpsecSettings()), family)
    assert attached["a"].mtu == 1500 - {Family.IPV4: 60, Family.IPV6: 80}[family]


@pytest.mark.parametrize("bits", [128, 192, 256])
def test_both_ends_of_each_ipsec_direction_share_a_key_kept_off_command_lines(bits: int) -> None:
    underlay, roots = recorded(3)
    layer = Ipsec(IpsecSettings(key_bits=bits))
    numbers = layer.numbers(underlay)
    states: dict[str, set[tuple[str, ...]]] = {}
    for name, end in underlay.ends.items():
        layer.configure(end, "its-space", "om1", underlay, numbers)
        text = "".join(roots[name].inputs)
        found = re.findall(r"state add src (\S+) dst (\S+) .* spi (\S+) .* 0x([0-9a-f]+) 128", text)
        states[name] = set(found)
        assert len(found) == 4, "two ways to each of two peers"
        assert {len(key) * 4 for *_, key in found} == {bits + 32}
        told = " ".join(word for argv in roots[name].argvs for word in argv)
        assert not any(key in told for *_, key in found)
        assert text.count("policy add") == 6
        number = str(numbers["id"])
        assert set(re.findall(r"(?:reqid|priority|if_id) (\S+)", text)) == {number}
        assert end.host.traces == [Trace("xfrm", number)]
        assert is_of("a-run", Trace("xfrm", number))
    for name, end in underlay.ends.items():
        for other, address in end.peers.items():
            there = {one for one in states[other] if end.own[other] in one[:2]}
            assert {one for one in states[name] if address in one[:2]} == there
    spis = {(one[1], one[2]) for some in states.values() for one in some}
    assert len(spis) == 6, "an index is one way's"
