"""Which flavor a need becomes, and which is too small for what servers boot from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import NotFoundError, ProviderError
from osmef.providers.openstack.lookup import FlavorInfo, ResolvedBootSource, choose_flavor
from osmef.scenario.fields import FlavorNeed

DISK_IMAGE = ResolvedBootSource("image", "i", disk_gib=8, ram_mib=1024, own_disk=True)
VOLUME_IMAGE = ResolvedBootSource("image", "i", disk_gib=8, ram_mib=1024)
FLAVORS = [
    FlavorInfo("tiny", 1, 512, 10, "1"),
    FlavorInfo("flat", 1, 1024, 4, "2"),
    FlavorInfo("diskless", 1, 1024, 0, "3"),
    FlavorInfo("small", 1, 2048, 10, "4"),
    FlavorInfo("wide", 4, 2048, 4, "5"),
]


@pytest.mark.parametrize(
    ("source", "need", "name"),
    [
        (DISK_IMAGE, FlavorNeed(vcpus=1), "small"),
        (VOLUME_IMAGE, FlavorNeed(vcpus=1), "diskless"),
        (ResolvedBootSource("image", "i", own_disk=True), FlavorNeed(vcpus=1), "tiny"),
        (ResolvedBootSource("volume", "v", 8), FlavorNeed(vcpus=2), "wide"),
    ],
)
def test_a_need_becomes_the_smallest_flavor_that_the_image_boots_on(
    source: ResolvedBootSource, need: FlavorNeed, name: str
) -> None:
    assert choose_flavor(FLAVORS, need, source).name == name


def test_a_need_met_only_by_too_small_flavors_is_reported_with_the_required_size() -> None:
    with pytest.raises(NotFoundError, match="1024 MiB of memory and 8 GiB of disk") as caught:
        choose_flavor(FLAVORS, FlavorNeed(vcpus=4), DISK_IMAGE)
    assert "larger flavor" in str(caught.value.cure)


@pytest.mark.parametrize("name", ["tiny", "flat", "5"])
def test_a_flavor_that_is_too_small_for_the_image_is_refused(name: str) -> None:
    with pytest.raises(ProviderError, match="too small") as caught:
        choose_flavor(FLAVORS, name, DISK_IMAGE)
    assert "provider.boot.size" in str(caught.value.cure)


@pytest.mark.parametrize(("name", "found"), [("diskless", "3"), ("4", "4"), ("small", "4")])
def test_a_flavor_is_named_by_name_or_id_and_may_have_no_disk(name: str, found: str) -> None:
    assert choose_flavor(FLAVORS, name, DISK_IMAGE).id == found


sizes = st.integers(0, 5)


@given(
    st.lists(st.builds(FlavorInfo, st.text(), sizes, sizes, sizes, st.just("x"))),
    st.integers(1, 4),
    st.builds(ResolvedBootSource, st.just("image"), st.just("i"), sizes, sizes, st.booleans()),
)
def test_no_chosen_flavor_is_too_small(
    there: list[FlavorInfo], vcpus: int, source: ResolvedBootSource
) -> None:
    try:
        chosen = choose_flavor(there, FlavorNeed(vcpus=vcpus), source)
    except NotFoundError:
        assert not [
            f
            for f in there
            if f.vcpus >= vcpus
            and f.ram_mib >= source.ram_mib
            and (not source.own_disk or f.disk_gib >= max(1, source.disk_gib))
        ]
    else:
        assert chosen.vcpus >= vcpus
        assert chosen.ram_mib >= source.ram_mib
        assert not source.own_disk or chosen.disk_gib >= max(1, source.disk_gib)
