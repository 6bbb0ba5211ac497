"""Price APIs of AWS, Azure and Google Compute Engine.

AWS has its Price List API, Azure its Retail Prices API, which is public, and Google the Cloud
Billing Catalog API. Google sells cores and memory of a family, so the price of a machine type is
made of both. The catalog names no machine types; those of the families below have so much memory a
core as their names say. Types of other families, and of shared cores, are left out.

Sources: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html
(GetProducts);
https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices;
https://cloud.google.com/billing/v1/how-tos/catalog-api
"""

from __future__ import annotations

import datetime
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit

from osmef.errors import ApiError, CredentialsError, InputError, PolicyError, ProviderError
from osmef.scenario.clouds.base import check_google
from osmef.scenario.fields import Price

_TIMEOUT_S = 60.0
_MOST_BYTES = 64 * 2**20


class _NoDetour(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: urllib would send the token to any other host."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoDetour)


def get_json(url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the JSON object at a URL of HTTP or HTTPS.

    Raises CredentialsError, PolicyError and ApiError, which say what the API answered.
    """
    if not url.startswith(("https://", "http://")):
        raise ApiError("the address of a price API begins with https://", where=url)
    request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310 - see above
    where = url.partition("?")[0]
    try:
        with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
            found = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal_of_http(error, where) from None
    except (OSError, ValueError, RecursionError) as error:
        cure = "is this machine online? try again"
        raise ApiError(f"the price API does not answer: {error}", where=where, cure=cure) from error
    if not isinstance(found, dict):
        raise ApiError("the price API answers something else than prices", where=where)
    return found


def _refusal_of_http(error: urllib.error.HTTPError, where: str) -> ProviderError:
    reported = f"the price API refuses: {error.code} {error.reason}"
    if error.code == 401:
        return CredentialsError(reported, where=where, cure="log in with the cloud's own tool")
    if error.code == 403:
        cure = "let these credentials read prices, and enable the API in their project"
        return PolicyError(reported, where=where, cure=cure)
    wait = error.headers.get("Retry-After")
    return ApiError(
        reported, where=where, cure=f"try again after {wait} s" if wait else "try later"
    )


_REGION = "us-east-1"  # the API is there, for all regions
_PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",  # else also what a reservation costs while it is idle
}
_NO_CREDENTIALS = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "ProfileNotFound",
    "ConfigParseError",
    "SSOError",
    "TokenRetrievalError",
    "InvalidConfigError",
)
"""What botocore raises when its chain finds no login."""


def fetch_aws(
    regions: Sequence[str], flavors: Sequence[str], url: str | None = None
) -> list[Price]:
    """Return on-demand prices of these types, Linux, in USD. Unknown ones are left out.

    Needs the permission pricing:GetProducts. Raises ProviderError.
    """
    boto3: Any = _library("boto3")
    errors: Any = import_module("botocore.exceptions")
    found: list[Price] = []
    try:
        client = boto3.client("pricing", region_name=_REGION, endpoint_url=url)
        for region in regions:
            for flavor in flavors:
                products = _products(client, {"regionCode": region, "instanceType": flavor})
                prices = {price.per_hour: price for one in products for price in _prices(one)}
                if len(prices) == 1:  # of two it is unknown which one is charged
                    found += prices.values()
    except tuple(getattr(errors, name) for name in _NO_CREDENTIALS) as error:
        cure = "log in with `aws configure` or `aws sso login`, or set AWS_PROFILE"
        raise CredentialsError(str(error), where="aws", cure=cure) from error
    except errors.ClientError as error:
        raise _refusal_of_aws(error) from error
    except errors.BotoCoreError as error:
        raise ApiError(str(error), where="aws", cure="try again") from error
    return found


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        message = f"the Python package {name} is not installed"
        raise ProviderError(message, where="aws", cure="pip install 'osmef[aws]'") from error


def _refusal_of_aws(error: Any) -> ProviderError:
    code = error.response.get("Error", {}).get("Code", "")
    if code in {"AccessDeniedException", "AccessDenied"}:
        cure = "let these credentials do pricing:GetProducts"
        return PolicyError(str(error), where="aws", cure=cure)
    if code in {"UnrecognizedClientException", "ExpiredTokenException", "InvalidClientTokenId"}:
        return CredentialsError(str(error), where="aws", cure="log in again")
    return ApiError(str(error), where="aws", cure="try again later")


def _products(client: Any, wanted: dict[str, str]) -> Iterator[dict[str, Any]]:
    filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in {**_PLAIN, **wanted}.items()
    ]
    pages = client.get_paginator("get_products").paginate(
        ServiceCode="AmazonEC2", FormatVersion="aws_v1", Filters=filters
    )
    for page in pages:
        yield from map(json.loads, page["PriceList"])


def _prices(product: dict[str, Any]) -> Iterator[Price]:
    """Yield the hourly prices on demand of a product."""
    attributes = product["product"]["attributes"]
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            amount = dimension["pricePerUnit"].get("USD")
            if dimension.get("unit") != "Hrs" or amount is None or float(amount) <= 0:
                continue
            yield Price(
                provider="aws",
                region=attributes["regionCode"],
                flavor=attributes["instanceType"],
                per_hour=f"{amount.rstrip('0').rstrip('.') if '.' in amount else amount} USD",
                date=datetime.date.fromisoformat(term["effectiveDate"][:10]),
                source=f"AWS Price List API, AmazonEC2, SKU {product['product']['sku']}",
            )


AZURE_URL = "https://prices.azure.com/api/retail/prices"
_SOURCE = "Azure Retail Prices API, meter {}"
_NOT_LIST = ("Spot", "Low Priority")


def fetch_azure(
    regions: Sequence[str], flavors: Sequence[str], url: str | None = None
) -> list[Price]:
    """Return on-demand prices of these sizes, Linux, in USD. Unknown ones are left out."""
    found: list[Price] = []
    for region in regions:
        for flavor in flavors:
            wanted = (
                f"serviceName eq 'Virtual Machines' and armRegionName eq '{_text(region)}'"
                f" and armSkuName eq '{_text(flavor)}' and priceType eq 'Consumption'"
            )
            items = _pages(f"{url or AZURE_URL}?$filter={quote(wanted)}")
            prices = {
                price.per_hour: price for price in map(_azure_price, items) if price is not None
            }
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


def _azure_price(item: dict[str, Any]) -> Price | None:
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


GCE_URL = "https://cloudbilling.googleapis.com"
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
_LESS = {"n2-highmem-128": 864.0}
"""GiB of machine types that have less memory than their names say."""


def fetch_gce(
    regions: Sequence[str], flavors: Sequence[str], url: str | None = None
) -> list[Price]:
    """Return on-demand prices of these machine types, in USD. Unknown ones are left out.

    The token goes to Google's hosts and this machine only. Raises InputError, ProviderError.
    """
    try:
        check_google(url or GCE_URL)
    except ValueError as error:
        message, _, cure = str(error).partition("; ")
        raise InputError(message, where="--url", cure=cure) from None
    skus = [sku for sku in _skus(url or GCE_URL) if sku["category"].get("usageType") == "OnDemand"]
    found = (_gce_price(region, flavor, skus) for region in regions for flavor in flavors)
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
    cure = "log in with `gcloud auth application-default login`"
    try:
        credentials, _project = auth.default(scopes=[_SCOPE])
        credentials.refresh(transport.Request())
    except errors.GoogleAuthError as error:
        reported = ": ".join(str(one).removesuffix(".") for one in error.args)
        raise CredentialsError(reported, where="gce", cure=cure) from error
    # The library checks little of a file before it reads it.
    except (OSError, AttributeError, LookupError, TypeError, ValueError) as error:
        file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS") or "the file of gcloud"
        what = f"{file} holds no credentials that can be used: {error}"
        raise CredentialsError(what, where="gce", cure=cure) from error
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
    """Return the catalog's name of a family, the number of cores, and GiB of memory."""
    match = _TYPE.fullmatch(flavor)
    name, memory = _FAMILIES.get(match["family"], ("", {})) if match else ("", {})
    if match is None or match["kind"] not in memory:
        return None
    cores = int(match["cores"])
    return name, cores, _LESS.get(flavor, cores * memory[match["kind"]])


def is_listed_by_gce(flavor: str) -> bool:
    """Return whether the catalog has the price of a machine type."""
    return _shape(flavor) is not None


def _gce_price(region: str, flavor: str, skus: Sequence[dict[str, Any]]) -> Price | None:
    """Return the price of a machine type, if the region sells its cores and memory."""
    shape = _shape(flavor)
    if shape is None:
        return None
    name, cores, memory = shape
    core, ram = (_part(region, name, part, skus) for part in ("Core", "Ram"))
    if core is None or ram is None:
        return None
    amount = cores * _amount(core) + memory * _amount(ram)
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
