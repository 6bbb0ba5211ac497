"""Prices of Google Compute Engine, from the Cloud Billing Catalog API.

Google sells cores and memory of a family, so the price of a machine type is made of both. The
catalog names no machine types; those of the families below have so much memory a core as their
names say. Types of other families, and of shared cores, are left out.

Source: https://cloud.google.com/billing/v1/how-tos/catalog-api
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import quote

from osmef.errors import CredentialsError, InputError, ProviderError
from osmef.prices.http import get_json
from osmef.scenario.clouds.base import check_google
from osmef.scenario.fields import Price

URL = "https://cloudbilling.googleapis.com"
_COMPUTE_ENGINE = "services/6F81-5844-456A"
_SCOPE = "https://www.googleapis.com/auth/cloud-billing.readonly"
_TYPE = re.compile(r"(?P<family>[a-z0-9]+)-(?P<kind>standard|highmem|highcpu)-(?P<cores>[0-9]+)")
# What the catalog calls the family, and GiB a core of each kind of its machine types.
_FAMILIES: dict[str, tuple[str, dict[str, float]]] = {
    "e2": ("E2 Instance", {"standard": 4, "highmem": 8, "highcpu": 1}),
    "n2": ("N2 Instance", {"standard": 4, "highmem": 8, "highcpu": 1}),
    "n2d": ("N2D AMD Instance", {"standard": 4, "highmem": 8, "highcpu": 1}),
    "c2": ("Compute optimized", {"standard": 4}),
    "c3": ("C3 Instance", {"standard": 4, "highmem": 8, "highcpu": 2}),
}


def fetch(regions: Sequence[str], flavors: Sequence[str], url: str | None = None) -> list[Price]:
    """Return on-demand prices of these machine types, in USD. Unknown ones are left out.

    The token goes to Google's hosts and this machine only. Raises InputError, ProviderError.
    """
    try:
        check_google(url or URL)
    except ValueError as error:
        message, _, cure = str(error).partition("; ")
        raise InputError(message, where="--url", cure=cure) from None
    skus = [sku for sku in _skus(url or URL) if sku["category"].get("usageType") == "OnDemand"]
    found = (_price(region, flavor, skus) for region in regions for flavor in flavors)
    return [price for price in found if price is not None]


def _token() -> str:
    """Return an access token by Google's standard chain of credentials."""
    try:
        auth: Any = import_module("google.auth")
        transport: Any = import_module("google.auth.transport.requests")
    except ModuleNotFoundError as error:
        message = f"the Python package {error.name} is not installed"
        raise ProviderError(message, where="gce", cure="pip install 'osmef[gce]'") from error
    errors: Any = import_module("google.auth.exceptions")
    try:
        credentials, _project = auth.default(scopes=[_SCOPE])
        credentials.refresh(transport.Request())
    except errors.GoogleAuthError as error:
        cure = "log in with `gcloud auth application-default login`"
        raise CredentialsError(str(error), where="gce", cure=cure) from error
    return str(credentials.token)


def _skus(url: str) -> Iterator[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {_token()}"}
    where, page = f"{url}/v1/{_COMPUTE_ENGINE}/skus?currencyCode=USD&pageSize=5000", ""
    while True:
        answer = get_json(where + (f"&pageToken={quote(page)}" if page else ""), headers)
        yield from answer.get("skus") or []
        page = answer.get("nextPageToken") or ""
        if not page:
            return


def _shape(flavor: str) -> tuple[str, int, float] | None:
    """Return the catalog's name of a family, the number of cores, and GiB per core."""
    match = _TYPE.fullmatch(flavor)
    name, memory = _FAMILIES.get(match["family"], ("", {})) if match else ("", {})
    if match is None or match["kind"] not in memory:
        return None
    return name, int(match["cores"]), memory[match["kind"]]


def is_told(flavor: str) -> bool:
    """Return whether the catalog has the price of a machine type."""
    return _shape(flavor) is not None


def _price(region: str, flavor: str, skus: Sequence[dict[str, Any]]) -> Price | None:
    """Return the price of a machine type, if the region sells its cores and memory."""
    shape = _shape(flavor)
    if shape is None:
        return None
    name, cores, memory = shape
    core, ram = (_part(region, name, part, skus) for part in ("Core", "Ram"))
    if core is None or ram is None:
        return None
    amount = cores * (_amount(core) + memory * _amount(ram))
    since = max(str(sku["pricingInfo"][0]["effectiveTime"]) for sku in (core, ram))
    return Price(
        provider="gce",
        region=region,
        flavor=flavor,
        per_hour=f"{amount:.9f} USD",
        date=datetime.date.fromisoformat(since[:10]),
        source=f"Cloud Billing Catalog API, SKUs {core['skuId']} and {ram['skuId']}",
    )


def _part(
    region: str, name: str, part: str, skus: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return the SKU of cores or memory; None for none or several."""
    # Some regions write "Compute optimized Instance Core", others leave a word out.
    pattern = re.compile(rf"{re.escape(name)}( Instance)? {part} running in .+")
    found = [
        sku
        for sku in skus
        if region in sku.get("serviceRegions", ()) and pattern.fullmatch(sku["description"])
    ]
    return found[0] if len(found) == 1 else None


def _amount(sku: dict[str, Any]) -> float:
    """Return the hourly price of a unit, in the last tier: the first may be free."""
    price = sku["pricingInfo"][0]["pricingExpression"]["tieredRates"][-1]["unitPrice"]
    return int(price.get("units") or 0) + int(price.get("nanos") or 0) / 1e9
