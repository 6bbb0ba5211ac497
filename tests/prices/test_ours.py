"""Our own price list: what the examples and the classes of instances need is in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.prices.price_list import OURS, PriceBook, read_prices
from osmef.scenario.load import load
from osmef.scenario.text_file import read_part

ROOT = Path(__file__).parents[2]
USUAL = {"aws": "us-east-1", "gce": "us-central1", "azure": "eastus"}
"""The region of each cloud in which the classes are priced."""
UNKNOWN: dict[tuple[str, str, str], str] = {}
"""What has no price by provider, region and flavor, and why nobody could back one."""
BOOK = PriceBook(read_prices(OURS))


def of_examples() -> Iterator[tuple[str, str, str]]:
    """Yield provider, region and flavor of each VM of an example that costs money."""
    for path in sorted((ROOT / "scenarios").rglob("*.yaml")):
        if path.parent.name == "campaigns":
            continue
        for cell in load(path).cells:
            for end in cell.scenario.ends:
                settings = cell.scenario.clouds[end.site]
                if settings.kind in USUAL:
                    flavor = str(end.flavor or settings.usual_flavor)
                    yield settings.kind, str(settings.priced_region(end.zone)), flavor


def of_classes() -> Iterator[tuple[str, str, str]]:
    """Yield provider, region and flavor of each class."""
    classes = ROOT / "osmef" / "scenario" / "classes.yaml"
    for one in read_part(classes, "classes")[0].classes.values():
        assert set(one.flavors) == set(USUAL)
        for provider, flavor in one.flavors.items():
            yield provider, USUAL[provider], flavor


@pytest.mark.parametrize("wanted", sorted({*of_examples(), *of_classes()}), ids="-".join)
def test_each_vm_of_examples_and_classes_has_a_price(wanted: tuple[str, str, str]) -> None:
    assert (BOOK.find(*wanted) is None) == (wanted in UNKNOWN)


def test_there_are_examples_of_all_clouds_with_prices() -> None:
    assert {provider for provider, _, _ in of_examples()} == set(USUAL)


def test_our_prices_are_dated_and_have_a_source() -> None:
    assert {price.provider for price in BOOK.prices} == set(USUAL)
    assert all(price.region and price.source and price.date for price in BOOK.prices)
