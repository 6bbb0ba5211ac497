"""From where SSH is allowed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from osmef.errors import ProviderError
from osmef.providers.aws import network
from osmef.scenario.clouds.aws import AwsSettings

SAID = {"/good": b"198.51.100.7\n", "/six": b"2001:db8::7\n", "/page": b"<html>log in</html>"}


class Teller(BaseHTTPRequestHandler):
    """Tells addresses, as Amazon does, or does not."""

    def do_GET(self) -> None:
        said = SAID.get(self.path)
        self.send_response(404 if said is None else 200)
        self.end_headers()
        self.wfile.write(said or b"")

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def teller(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")  # SSH would not take it either
    server = HTTPServer(("127.0.0.1", 0), Teller)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def ask(teller: str, path: str, monkeypatch: pytest.MonkeyPatch, **more: str) -> str:
    monkeypatch.setattr(network, "_ASK", teller + path)
    return network.controller_of(AwsSettings(region="r", default_flavor="c5.large", **more))


def test_amazon_is_asked_for_the_address(teller: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(teller, "/good", monkeypatch) == "198.51.100.7/32"


def test_amazon_is_asked_where_the_api_is_its_own(
    teller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fips = "https://ec2-fips.us-east-1.amazonaws.com"
    assert ask(teller, "/good", monkeypatch, endpoint_url=fips) == "198.51.100.7/32"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(ProviderError, match="is not known"):
        ask(teller, "/good", monkeypatch, endpoint_url="http://127.0.0.1:1")


@pytest.mark.parametrize("path", ["/six", "/page", "/none"])
def test_an_invalid_controller_address_is_rejected(
    teller: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProviderError) as raised:
        ask(teller, path, monkeypatch)
    assert "198.51.100.7/32" in str(raised.value.cure)


def test_the_configured_controller_cidr_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    block = ask("http://127.0.0.1:1", "/", monkeypatch, controller_cidr="198.51.100.0/24")
    assert block == "198.51.100.0/24"
