"""Fetch prices from a cloud's price API into a file of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import cast

from osmef.errors import ApiError, InputError
from osmef.prices import gce
from osmef.prices.price_list import add_prices, fetched_file, read_book
from osmef.scenario.money import Price

KINDS = ("aws", "gce", "azure")

Fetch = Callable[[Sequence[str], Sequence[str], str | None], list[Price]]


def is_told(kind: str, flavor: str) -> bool:
    """Tell whether a cloud has a price API that may know a flavor."""
    return kind in KINDS and (kind != "gce" or gce.is_told(flavor))


def update(
    kind: str, regions: Sequence[str], flavors: Sequence[str], url: str | None = None
) -> list[Price]:
    """Fetch prices of flavors in regions, by default of those that have a price; return them.

    Their day is today, on which they are in force. Raises InputError, ProviderError, StorageError;
    the file is then as it was.
    """
    if kind not in KINDS:
        message = f"there is no price API of {kind!r} that OSMeF knows"
        raise InputError(message, cure=f"name one of: {', '.join(KINDS)}")
    known = [price for price in read_book().prices if price.provider == kind]
    places = list(regions) or sorted({price.region for price in known if price.region})
    sizes = list(flavors) or sorted({price.flavor for price in known})
    fetch = cast("Fetch", import_module(f"osmef.prices.{kind}").fetch)
    try:
        found = fetch(places, sizes, url)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ApiError(f"the price API answers something else: {error!r}", where=kind) from error
    dated = [_as_of_today(price) for price in found]
    if dated:
        add_prices(fetched_file(kind), dated)
    return dated


def _as_of_today(price: Price) -> Price:
    today, source = datetime.now(UTC).date(), f"{price.source}, in force since {price.date}"
    return price.model_copy(update={"date": today, "source": source})
