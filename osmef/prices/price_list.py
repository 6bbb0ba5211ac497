"""Price lists in order of precedence: the project's, fetched ones, a user's, the scenario's.

What a cloud's price API tells is fetched into a file of the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import cast

from osmef.errors import ApiError, InputError
from osmef.results.files import storage, write_atomically
from osmef.scenario.fields import Price
from osmef.scenario.text_file import read_part, user_directory
from osmef.scenario.yaml_text import write_yaml

OURS = Path(__file__).parent / "prices.yaml"
OWN = "prices.yaml"

_Key = tuple[str, str | None, str]
KINDS = ("aws", "gce", "azure")

Fetch = Callable[[Sequence[str], Sequence[str], str | None], list[Price]]


def fetched_file(kind: str) -> Path:
    """Return the file that `osmef prices update` writes for a kind of cloud."""
    return user_directory() / f"prices-{kind}.yaml"


class PriceBook:
    """Price lists, each overriding those before it.

    In one list the last of several prices for the same provider, region and flavor counts.
    """

    def __init__(self, *lists: Iterable[Price]) -> None:
        self._lists = [{_key(price): price for price in prices} for prices in lists]

    @property
    def prices(self) -> list[Price]:
        """All of them, in order."""
        found = {key: price for prices in self._lists for key, price in prices.items()}
        return [found[key] for key in sorted(found, key=lambda k: (k[0], str(k[1:])))]

    def find(self, provider: str, region: str | None, flavor: str) -> Price | None:
        """Return the price of a flavor by the last list that has it; None without any.

        In one list that of its region goes before that of all regions.
        """
        keys = [_key_of(provider, region, flavor), _key_of(provider, None, flavor)]
        found = (prices[key] for prices in reversed(self._lists) for key in keys if key in prices)
        return next(found, None)


def _key(price: Price) -> _Key:
    return _key_of(price.provider, price.region, price.flavor)


def _key_of(provider: str, region: str | None, flavor: str) -> _Key:
    # Azure takes its sizes in any case.
    return provider, region, flavor.lower() if provider == "azure" else flavor


def read_book(own: Sequence[Price] = ()) -> PriceBook:
    """Load all price lists, with a scenario's own last. Raises InputError.

    Of ours and those that were fetched the one of the later day counts, fetched ones on one day.
    """
    directory = user_directory()
    files = sorted(directory.glob("prices-*.yaml"))
    fetched = [price for file in files for price in read_prices(file)]
    by_day = sorted([*_our_prices(), *fetched], key=lambda price: price.date)
    return PriceBook(by_day, read_prices(directory / OWN), own)


@cache
def _our_prices() -> tuple[Price, ...]:
    """Return the project's own prices, cached."""
    return tuple(read_prices(OURS))


def read_prices(path: Path) -> list[Price]:
    """Load the prices of a file; empty if it does not exist. Raises InputError."""
    return read_part(path, "prices")[0].prices


def add_prices(path: Path, prices: Sequence[Price]) -> None:
    """Merge prices into a file, replacing those of the same flavors.

    The file is the old one or the new one at any time. Raises InputError, StorageError.
    """
    book = PriceBook([*read_prices(path), *prices])
    rows = [price.model_dump(mode="json", exclude_none=True) for price in book.prices]
    with storage("make", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, write_yaml(rows).encode())


def is_listed(kind: str, flavor: str) -> bool:
    """Return whether a cloud's price API may have a flavor."""
    if kind != "gce":
        return kind in KINDS
    from osmef.prices.apis import is_listed_by_gce  # noqa: PLC0415 - it loads what speaks HTTP

    return is_listed_by_gce(flavor)


def update(
    kind: str, regions: Sequence[str], flavors: Sequence[str], url: str | None = None
) -> list[Price]:
    """Fetch prices of flavors in regions, by default of the known ones; return them.

    Their day is today, on which they are in force. Raises InputError, ProviderError, StorageError;
    the file is then as it was.
    """
    if kind not in KINDS:
        message = f"there is no price API of {kind!r} that OSMeF knows"
        raise InputError(message, cure=f"name one of: {', '.join(KINDS)}")
    known = [price for price in read_book().prices if price.provider == kind]
    wanted = list(regions) or sorted({price.region for price in known if price.region})
    sizes = list(flavors) or sorted({price.flavor for price in known})
    fetch = cast("Fetch", getattr(import_module("osmef.prices.apis"), f"fetch_{kind}"))
    try:
        found = fetch(wanted, sizes, url)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ApiError(f"the price API answers something else: {error!r}", where=kind) from error
    dated = [_as_of_today(price) for price in found]
    if dated:
        add_prices(fetched_file(kind), dated)
    return dated


def _as_of_today(price: Price) -> Price:
    today, source = datetime.now(UTC).date(), f"{price.source}, in force since {price.date}"
    return price.model_copy(update={"date": today, "source": source})
