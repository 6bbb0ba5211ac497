"""Where credentials may go: the hosts of their own cloud, this machine, what the user allows."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from osmef.scenario.clouds.base import HOSTS, AwsUrl, AzureUrl, GoogleUrl

AWS, AZURE, GOOGLE = (TypeAdapter[str](url) for url in (AwsUrl, AzureUrl, GoogleUrl))


@pytest.mark.parametrize(
    ("cloud", "url"),
    [
        (AWS, "https://ec2.eu-central-1.amazonaws.com"),
        (AWS, "https://ec2.eu-central-1.api.aws:443"),
        (AWS, "https://ec2-fips.us-east-1.amazonaws.com"),
        (AWS, "https://ec2.cn-north-1.amazonaws.com.cn/"),
        (AZURE, "https://management.azure.com"),
        (AZURE, "https://westeurope.management.azure.com/"),
        (AZURE, "https://management.usgovcloudapi.net"),
        (GOOGLE, "https://compute.googleapis.com"),
        (GOOGLE, "https://COMPUTE.googleapis.com:443/"),
        (GOOGLE, "https://compute.us-central1.rep.googleapis.com"),
        (GOOGLE, "https://compute-lab.p.googleapis.com"),
        (GOOGLE, "https://private.googleapis.com"),
        (GOOGLE, "http://127.0.0.1:8080"),
        (GOOGLE, "http://127.1.2.3"),
        (GOOGLE, "http://localhost:8080/api"),
        (GOOGLE, "http://[::1]:8080"),
        (GOOGLE, "http://[0:0:0:0:0:0:0:1]:8080"),
        (GOOGLE, "https://[::1]:8080"),
    ],
)
def test_hosts_of_the_cloud_and_this_machine_are_taken(cloud: TypeAdapter[str], url: str) -> None:
    assert cloud.validate_python(url) == url


@pytest.mark.parametrize(
    ("cloud", "url"),
    [
        # another host
        (GOOGLE, "https://example.org"),
        (GOOGLE, "https://googleapis.com.example.org"),
        (GOOGLE, "https://evilgoogleapis.com"),
        (GOOGLE, "https://management.azure.com"),
        (GOOGLE, "https://[2001:db8::1]"),
        (AZURE, "https://lab.westeurope.cloudapp.azure.com"),
        (AZURE, "https://a.b.management.azure.com"),
        (AZURE, "https://management.azure.com.example.org"),
        (AWS, "https://ec2-198-51-100-7.compute-1.amazonaws.com"),
        (AWS, "https://sts.eu-central-1.amazonaws.com"),
        (AWS, "https://abc.execute-api.us-east-1.amazonaws.com"),
        (AWS, "https://ec2.amazonaws.com.example.org"),
        (AWS, "https://bucket.s3.amazonaws.com"),
        # two ways to read it
        (GOOGLE, "https://compute.googleapis.com."),
        (GOOGLE, "https://compute.googleapis.com@example.org"),
        (GOOGLE, "https://compute.googleapis.com:443@example.org"),
        (GOOGLE, "https://example.org@compute.googleapis.com"),
        (GOOGLE, "https://example.org\\.googleapis.com"),
        (GOOGLE, "https://example.org#.googleapis.com"),
        (GOOGLE, "https://example.org?.googleapis.com"),
        (GOOGLE, "https://example.org%2f.googleapis.com"),
        (GOOGLE, "https://compute.googleapis.com/?x=y"),
        (GOOGLE, "https://compute.googleapis\uff0ecom"),
        (GOOGLE, "https://compute.googleapis.com\n"),
        (GOOGLE, "https:///compute.googleapis.com"),
        (GOOGLE, "https://compute.googleapis.com:0"),
        (GOOGLE, "https://compute.googleapis.com:70000"),
        (GOOGLE, "HTTPS://compute.googleapis.com"),
        (GOOGLE, "file:///etc/passwd"),
        # in clear, and not to this machine
        (GOOGLE, "http://compute.googleapis.com"),
        (GOOGLE, "http://10.0.0.1:8080"),
        (GOOGLE, "http://127.0.0.1.example.org"),
        (GOOGLE, "http://localhost.example.org"),
        (GOOGLE, "http://127.1"),
        (GOOGLE, "http://2130706433"),
        (GOOGLE, "http://0x7f.0.0.1"),
        (GOOGLE, "http://0.0.0.0:8080"),
        (GOOGLE, "http://[::]:8080"),
        (GOOGLE, "http://[::ffff:10.0.0.1]"),
        (GOOGLE, "http://[::1"),
    ],
)
def test_other_endpoint_urls_are_rejected_with_a_cure(cloud: TypeAdapter[str], url: str) -> None:
    with pytest.raises(ValidationError) as raised:
        cloud.validate_python(url)
    (error,) = raised.value.errors()
    message, _, cure = str(error["ctx"]["error"]).partition("; ")
    assert message
    assert cure


@pytest.mark.parametrize(
    ("proxies", "taken"),
    [
        ({}, True),
        ({"https_proxy": "http://proxy:3128"}, True),
        ({"http_proxy": "http://proxy:3128"}, False),
        ({"ALL_PROXY": "http://proxy:3128"}, False),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "localhost,127.0.0.1"}, True),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "*"}, True),
        # Some libraries take that for an exception, and others do not.
        ({"http_proxy": "http://proxy:3128", "no_proxy": "127.0.0.1:8080"}, False),
    ],
)
def test_this_machine_is_not_reached_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch, proxies: dict[str, str], *, taken: bool
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    told = []
    try:
        GOOGLE.validate_python("http://127.0.0.1:8080")
    except ValidationError as error:
        told.append(str(error))
    assert (not told) is taken
    assert all("export no_proxy=127.0.0.1" in text for text in told)


@pytest.mark.parametrize(
    ("allowed", "url", "taken"),
    [
        ("lab.example.org", "https://lab.example.org", True),
        ("other, LAB.example.org ", "https://lab.example.org/api", True),
        ("lab.example.org:8443", "https://lab.example.org:8443", True),
        ("lab.example.org:443", "https://lab.example.org", True),
        ("[2001:db8::1]:8443", "https://[2001:DB8::1]:8443", True),
        ("lab.example.org", "https://lab.example.org:8443", False),
        ("lab.example.org:8443", "https://lab.example.org", False),
        ("lab.example.org", "http://lab.example.org", False),
        ("lab.example.org", "https://sub.lab.example.org", False),
        ("example.org", "https://lab.example.org", False),
        ("*", "https://lab.example.org", False),
        ("", "https://lab.example.org", False),
    ],
)
def test_the_environment_allows_a_host_by_https(
    monkeypatch: pytest.MonkeyPatch, allowed: str, url: str, *, taken: bool
) -> None:
    monkeypatch.setenv(HOSTS, allowed)
    for cloud in (AWS, AZURE, GOOGLE):
        try:
            cloud.validate_python(url)
        except ValidationError:
            assert not taken
        else:
            assert taken
