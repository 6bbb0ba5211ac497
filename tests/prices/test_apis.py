"""Answers of the shape that the clouds' documentation and their clients' recordings show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import botocore.exceptions
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from osmef.errors import ApiError, CredentialsError, InputError, PolicyError, ProviderError
from osmef.prices.apis import fetch_aws, fetch_azure, fetch_gce
from osmef.prices.price_list import fetched_file, read_book, read_prices, update
from tests.prices.api import Api, price_api


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's files, and credentials that mean nothing anywhere."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def api() -> Iterator[Api]:
    with price_api() as server:
        yield server


def azure_item(price: float, **changes: Any) -> dict[str, Any]:
    return {
        "currencyCode": "USD",
        "retailPrice": price,
        "armRegionName": "westeurope",
        "effectiveStartDate": "2021-11-01T00:00:00Z",
        "meterId": "0561adcb-1c48-542e-9e0c-10dea22fc392",
        "meterName": "D2s v5",
        "productName": "Virtual Machines Dsv5 Series",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "armSkuName": "Standard_D2s_v5",
        **changes,
    }


def test_the_on_demand_linux_price_of_azure_is_found_over_all_pages(api: Api) -> None:
    others = [
        azure_item(0.207, productName="Virtual Machines Dsv5 Series Windows"),
        azure_item(0.02, meterName="D2s v5 Spot"),
        azure_item(0.03, meterName="D2s v5 Low Priority"),
        azure_item(519.0, type="Reservation", unitOfMeasure="1 Hour"),
        azure_item(0.115, productName="Dsv5 Series Cloud Services"),
    ]
    api.answers = [
        (200, {"Items": others, "NextPageLink": f"{api.url}/more"}),
        (200, {"Items": [azure_item(0.115)], "NextPageLink": None}),
    ]
    (price,) = fetch_azure(["westeurope"], ["Standard_D2s_v5"], api.url)
    assert (price.region, price.flavor) == ("westeurope", "Standard_D2s_v5")
    assert (price.per_hour, str(price.date)) == ("0.115 USD", "2021-11-01")
    assert "armSkuName eq 'Standard_D2s_v5'" in unquote(api.asked[0][0])


def test_of_two_contradicting_prices_none_is_used(api: Api) -> None:
    api.answers = [(200, {"Items": [azure_item(0.1), azure_item(0.2)]})]
    assert fetch_azure(["westeurope"], ["Standard_D2s_v5"], api.url) == []


def test_a_page_of_another_host_is_not_asked_for(api: Api) -> None:
    api.answers = [(200, {"Items": [], "NextPageLink": "http://127.0.0.2:1/x"})]
    with pytest.raises(ApiError, match="another host"):
        fetch_azure(["westeurope"], ["Standard_D2s_v5"], api.url)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, CredentialsError), (403, PolicyError), (429, ApiError), (503, ApiError)],
)
def test_a_refused_price_update_is_reported_by_kind_and_keeps_the_file(
    api: Api, status: int, kind: type[ProviderError]
) -> None:
    api.answers = [(200, {"Items": [azure_item(0.115)]}), (status, {})]
    update("azure", ["westeurope"], ["Standard_D2s_v5"], api.url)
    before = fetched_file("azure").read_text()
    with pytest.raises(kind):
        update("azure", ["westeurope"], ["Standard_D2s_v5"], api.url)
    assert fetched_file("azure").read_text() == before


def test_an_answer_of_another_shape_is_no_traceback(api: Api) -> None:
    api.answers = [(200, {"Items": [{**azure_item(0.1), "effectiveStartDate": "soon"}]})]
    with pytest.raises(ApiError, match="something else"):
        update("azure", ["westeurope"], ["Standard_D2s_v5"], api.url)


def test_fetched_prices_override_built_in_ones_and_keep_other_flavors(api: Api) -> None:
    other = azure_item(0.5, armSkuName="Standard_D8s_v5")
    api.answers = [(200, {"Items": [other]}), (200, {"Items": [azure_item(0.2)]})]
    update("azure", ["westeurope"], ["Standard_D8s_v5"], api.url)
    update("azure", ["westeurope"], ["Standard_D2s_v5"], api.url)
    assert len(read_prices(fetched_file("azure"))) == 2
    found = read_book().find("azure", "westeurope", "Standard_D2s_v5")
    assert found is not None
    assert found.per_hour == "0.2 USD"
    assert [path.name for path in fetched_file("azure").parent.iterdir()] == ["prices-azure.yaml"]


def test_fetched_prices_have_todays_date_and_their_start_date(api: Api) -> None:
    api.answers = [(200, {"Items": [azure_item(0.115)]})]
    before = datetime.now(UTC).date()
    (price,) = update("azure", ["westeurope"], ["Standard_D2s_v5"], api.url)
    assert before <= price.date <= datetime.now(UTC).date()
    assert price.source.endswith("in force since 2021-11-01")
    assert read_prices(fetched_file("azure")) == [price]


def aws_product(price: str, unit: str = "Hrs") -> str:
    return json.dumps(
        {
            "product": {
                "productFamily": "Compute Instance",
                "attributes": {"instanceType": "m5.large", "regionCode": "us-east-1"},
                "sku": "6C86BEPQVG73ZGGR",
            },
            "terms": {
                "OnDemand": {
                    "6C86BEPQVG73ZGGR.JRTCKXETXF": {
                        "priceDimensions": {
                            "6C86BEPQVG73ZGGR.JRTCKXETXF.6YS6EN2CT7": {
                                "unit": unit,
                                "pricePerUnit": {"USD": price},
                            }
                        },
                        "effectiveDate": "2026-03-01T00:00:00Z",
                    }
                }
            },
        }
    )


def test_the_on_demand_price_of_aws_is_found_over_all_pages(api: Api) -> None:
    pytest.importorskip("boto3", reason="the extra osmef[aws] is not installed")
    api.answers = [
        (200, {"FormatVersion": "aws_v1", "PriceList": [], "NextToken": "more"}),
        (200, {"FormatVersion": "aws_v1", "PriceList": [aws_product("0.0960000000")]}),
    ]
    (price,) = fetch_aws(["us-east-1"], ["m5.large"], api.url)
    assert (price.region, price.flavor, price.per_hour) == ("us-east-1", "m5.large", "0.096 USD")
    assert str(price.date) == "2026-03-01"
    filters = {one["Field"]: one["Value"] for one in json.loads(api.asked[0][1])["Filters"]}
    assert filters["capacitystatus"] == "Used"
    assert json.loads(api.asked[1][1])["NextToken"] == "more"


def test_a_missing_permission_of_aws_is_named(api: Api) -> None:
    pytest.importorskip("boto3", reason="the extra osmef[aws] is not installed")
    api.answers = [(400, {"__type": "AccessDeniedException", "message": "not authorized"})]
    with pytest.raises(PolicyError) as caught:
        fetch_aws(["us-east-1"], ["m5.large"], api.url)
    assert "pricing:GetProducts" in str(caught.value)


def sku(description: str, nanos: int, usage: str = "OnDemand") -> dict[str, Any]:
    rate = {"unitPrice": {"currencyCode": "USD", "units": "0", "nanos": nanos}}
    return {
        "skuId": description[:9],
        "description": description,
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": ["us-central1", "us-east1"],
        "pricingInfo": [
            {
                "effectiveTime": "2026-05-12T00:00:00Z",
                "pricingExpression": {"usageUnit": "h", "tieredRates": [rate]},
            }
        ],
    }


@pytest.fixture
def _token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, api: Api) -> None:
    """Credentials of a service, whose token this machine hands out."""
    pytest.importorskip("google.auth", reason="the extra osmef[gce] is not installed")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    keys = {"type": "service_account", "client_email": "nobody@example.com", "private_key": pem}
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({**keys, "token_uri": f"{api.url}/token"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "nobody")
    api.answers = [(200, {"access_token": "t", "expires_in": 60, "token_type": "Bearer"})]


@pytest.mark.usefixtures("_token")
def test_google_s_cores_and_memory_are_added_up(api: Api) -> None:
    page = [
        sku("N2 Instance Core running in Americas", 31611000),
        sku("Spot Preemptible N2 Instance Core running in Americas", 7610000, "Preemptible"),
        sku("N2 Custom Instance Core running in Americas", 33000000),
    ]
    more = [sku("N2 Instance Ram running in Americas", 4237000)]
    api.answers += [(200, {"skus": page, "nextPageToken": "x"}), (200, {"skus": more})]
    wanted = ["n2-standard-2", "n2-highmem-4", "n2-highmem-128", "e2-micro", "m1-megamem-96"]
    found = {one.flavor: one for one in fetch_gce(["us-central1", "mars"], wanted, api.url)}
    assert set(found) == {"n2-standard-2", "n2-highmem-4", "n2-highmem-128"}
    assert found["n2-standard-2"].money.amount == pytest.approx(2 * 0.031611 + 8 * 0.004237)
    assert found["n2-highmem-4"].money.amount == pytest.approx(4 * 0.031611 + 32 * 0.004237)
    largest = found["n2-highmem-128"].money.amount  # it has no 8 GiB a core
    assert largest == pytest.approx(128 * 0.031611 + 864 * 0.004237)


@pytest.mark.parametrize("text", ["[]", "{", '{"type": "impersonated_service_account"}'])
def test_a_file_without_google_s_credentials_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, api: Api, text: str
) -> None:
    pytest.importorskip("google.auth", reason="the extra osmef[gce] is not installed")
    file = tmp_path / "credentials.json"
    file.write_text(text)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(CredentialsError) as caught:
        fetch_gce(["us-central1"], ["n2-standard-2"], api.url)
    assert str(file) in str(caught.value)
    assert "Error(" not in str(caught.value), "the cause is in words"
    assert caught.value.cure


@pytest.mark.usefixtures("_token")
@pytest.mark.parametrize("url", ["http://api.example.org", "https://googleapis.com.example.org"])
def test_the_google_token_is_sent_to_google_only(api: Api, url: str) -> None:
    with pytest.raises(InputError) as caught:
        fetch_gce(["us-central1"], ["n2-standard-2"], url)
    assert caught.value.where == "--url"
    assert caught.value.cure
    assert api.asked == []


@pytest.mark.usefixtures("_token")
def test_a_redirection_takes_no_token_along(api: Api) -> None:
    with price_api() as other:
        other.answers = [(200, {"skus": []})]
        api.answers += [(302, {"Location": f"{other.url}/v1"})]
        with pytest.raises(ApiError, match="302"):
            fetch_gce(["us-central1"], ["n2-standard-2"], api.url)
        assert other.asked == []


@pytest.mark.parametrize(
    "error", ["ProfileNotFound", "UnauthorizedSSOTokenError", "CredentialRetrievalError"]
)
def test_a_missing_aws_login_is_reported(
    api: Api, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = getattr(botocore.exceptions, error)
    keys = {"profile": "typo", "provider": "sso", "error_msg": "no"}

    def refuse(*_: Any, **_more: Any) -> None:
        raise raised(**keys)

    monkeypatch.setattr("boto3.client", refuse)
    with pytest.raises(CredentialsError) as caught:
        fetch_aws(["us-east-1"], ["t3.micro"], api.url)
    assert "aws sso login" in str(caught.value.cure)
