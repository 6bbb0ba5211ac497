"""Prices of AWS, from its Price List API.

Source: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html, GetProducts
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from osmef.errors import ApiError, CredentialsError, PolicyError, ProviderError
from osmef.scenario.fields import Price

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


def fetch(regions: Sequence[str], flavors: Sequence[str], url: str | None = None) -> list[Price]:
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
        raise _refused(error) from error
    except errors.BotoCoreError as error:
        raise ApiError(str(error), where="aws", cure="try again") from error
    return found


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        message = f"the Python package {name} is not installed"
        raise ProviderError(message, where="aws", cure="pip install 'osmef[aws]'") from error


def _refused(error: Any) -> ProviderError:
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
