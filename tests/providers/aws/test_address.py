"""To which address requests for each of Amazon's services go."""

from __future__ import annotations

import pytest

from osmef.providers.aws.access import address_of

SERVICES = ("ec2", "sts", "ssm", "service-quotas")
FIPS, ENDPOINT = (
    "https://ec2-fips.us-east-1.amazonaws.com",
    "https://vpce-0a1b.ec2.us-east-1.vpce.amazonaws.com",
)


@pytest.mark.parametrize(
    ("url", "others"),
    [
        (None, None),
        (FIPS, None),
        (ENDPOINT, None),  # where OSMEF_API_HOSTS allows it
        ("https://ec2.us-east-1.api.aws/", None),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("https://api.lab.example:8443", "https://api.lab.example:8443"),
    ],
)
def test_a_host_of_amazons_is_that_of_ec2_alone(url: str | None, others: str | None) -> None:
    access = {"region": "us-east-1", **({} if url is None else {"uri": url})}
    assert [address_of(one, access) for one in SERVICES] == [url, others, others, others]
