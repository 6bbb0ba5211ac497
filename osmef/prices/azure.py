"""Prices of Azure, from its Retail Prices API, which is public.

Source: https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from osmef.errors import ApiError
from osmef.prices.http import get_json
from osmef.scenario.fields import Price

URL = "https://prices.azure.com/api/retail/prices"
_SOURCE = "Azure Retail Prices API, meter {}"
_NOT_LIST = ("Spot", "Low Priority")


def fetch(regions: Sequence[str], flavors: Sequence[str], url: str | None = None) -> list[Price]:
    """Return on-demand prices of these sizes, Linux, in USD. Unknown ones are left out."""
    found: list[Price] = []
    for region in regions:
        for flavor in flavors:
            wanted = (
                f"serviceName eq 'Virtual Machines' and armRegionName eq '{_text(region)}'"
                f" and armSkuName eq '{_text(flavor)}' and priceType eq 'Consumption'"
            )
            items = _pages(f"{url or URL}?$filter={quote(wanted)}")
            prices = {price.per_hour: price for price in map(_price, items) if price is not None}
            if len(prices) == 1:  # of two it is unknown which one is charged
                found += prices.values()
    return found


def _text(word: str) -> str:
    return word.replace("'", "''")  # OData's escape


def _pages(url: str) -> Iterator[dict[str, Any]]:
    host = urlsplit(url).netloc
    while url:
        page = get_json(url)
        yield from page.get("Items") or []
        url = page.get("NextPageLink") or ""
        if url and urlsplit(url).netloc not in {host, f"{host}:443"}:
            raise ApiError("the price API sends us to another host", where=url)


def _price(item: dict[str, Any]) -> Price | None:
    """Return the price of an item; None for an item of another kind."""
    meter, product = str(item.get("meterName")), str(item.get("productName"))
    hourly = item.get("unitOfMeasure") == "1 Hour" and item.get("type") == "Consumption"
    plain = not meter.endswith(_NOT_LIST) and not product.endswith(" Windows")
    amount = item.get("retailPrice")
    machine = product.startswith("Virtual Machines")  # the same sizes are sold as cloud services
    if not (hourly and plain and machine and isinstance(amount, int | float) and amount > 0):
        return None
    return Price(
        provider="azure",
        region=item["armRegionName"],
        flavor=item["armSkuName"],
        per_hour=f"{amount:.10f}".rstrip("0").rstrip(".") + f" {item['currencyCode']}",
        date=datetime.date.fromisoformat(str(item["effectiveStartDate"])[:10]),
        source=_SOURCE.format(item.get("meterId", "unknown")),
    )
