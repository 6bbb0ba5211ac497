"""Which project the credentials lead to, and what is wrong with those that lead nowhere."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from keystoneauth1.exceptions import NotFound
from openstack.exceptions import ForbiddenException, HttpException, SDKException

from osmef.campaigns.executors.session import SessionJob, measure
from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.errors import CredentialsError, Interrupted, PolicyError, ProviderError, QuotaError
from osmef.providers.base import Resource
from osmef.providers.openstack.access import ERRORS, open_cloud
from osmef.providers.openstack.provider import OpenStackProvider
from tests.cli.conftest import Osmef
from tests.providers.openstack.keystone import entry, keystone, write_cloud


@pytest.fixture
def osmef(tmp_path: Path) -> Iterator[Osmef]:
    command = Osmef(tmp_path)
    yield command
    command.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with keystone() as at:
        yield at


def test_the_way_to_a_project_names_it_and_its_cloud(clouds: Path, url: str) -> None:
    write_cloud(clouds, url, "p1", region_name="north")
    cloud = open_cloud({"cloud": "lab"})
    assert cloud.access == {"cloud": "lab", "region": "north", "auth_url": url, "home": "p1"}
    assert cloud.name == "lab"
    assert open_cloud(cloud.access).access == cloud.access


@pytest.mark.parametrize(
    ("known", "wanted", "message", "cure"),
    [
        (["north"], "Mars", "no region 'Mars'", "north"),
        ([], "Mars", "no region 'Mars'", "north, south"),
        ([], "North", "no region 'North'", "north, south"),
        ([], None, "no region is configured", "north, south"),
    ],
)
def test_a_wrong_or_missing_region_is_reported_with_the_available_ones(
    clouds: Path, known: list[str], wanted: str | None, message: str, cure: str
) -> None:
    access = {"cloud": "lab"} | ({"region": wanted} if wanted else {})
    with keystone("north", "south") as url:
        write_cloud(clouds, url, "p1", **({"regions": known} if known else {}))
        with pytest.raises(CredentialsError, match=message) as caught:
            open_cloud(access)
        assert cure in str(caught.value.cure)
        assert ("list it under `regions`" in str(caught.value.cure)) == bool(known)
        assert open_cloud(access | {"region": "north"}).access["region"] == "north"


def test_reap_searches_the_given_region(clouds: Path, tmp_path: Path) -> None:
    osmef = Osmef(tmp_path)
    with keystone("north", "south") as url:
        write_cloud(clouds, url, "p1")
        ended = osmef("reap", "--provider", "openstack", "--cloud", "lab", "--region", "Mars")
    assert ended.code == 3
    assert "no region 'Mars'" in ended.err
    assert "name one of: north, south" in ended.err
    assert ended.out.strip() == "nothing left of what could be looked at"
    assert osmef("reap", "--region", "north").code == 2


WHERE = "auth_url: 'http://127.0.0.1:9/v3'"
WHO = f"{WHERE}, username: u, project_name: p"


@pytest.mark.parametrize(
    ("text", "message", "cure"),
    [
        ("clouds:\n  lab: {auth: [", "line 2", "fix the file"),
        ("clouds: \xff", "can't read it", "fix the file"),
        ("- lab\n", "not a valid mapping", "fix its entry"),
        ("clouds: [lab]\n", "of the wrong kind", "fix its entry"),
        ("clouds: {lab: here}\n", "of the wrong kind", "fix its entry"),
        ("clouds: {lab: {auth: here}}\n", "of the wrong kind", "fix its entry"),
        ("clouds: {lab: {auth: {username: u}}}\n", "auth_url", "fix its entry"),
        ("clouds: {lab: {auth_type: magic}}\n", "magic", "fix its entry"),
        (f"clouds: {{lab: {{auth: {{{WHO}}}}}}}\n", "no password", "fix its entry"),
        (f"clouds: {{lab: {{auth: {{{WHERE}, password: x}}}}}}\n", "no user", "fix its entry"),
        (
            "clouds: {lab: {auth: {auth_url: 'a:5000', username: u, password: x}}}\n",
            "auth_url is no",
            "fix",
        ),
        (
            "clouds: {lab: {auth: {auth_url: 'http://[::1/', username: u, password: x}}}\n",
            "no sense",
            "fix",
        ),
        (
            f"clouds: {{lab: {{api_timeout: soon, auth: {{{WHO}, password: x}}}}}}\n",
            "no sense",
            "fix",
        ),
        (f"clouds: {{lab: {{cacert: /no/ca, auth: {{{WHO}, password: x}}}}}}\n", "/no/ca", "fix"),
        (f"clouds: {{lab: {{cert: /no/me, auth: {{{WHO}, password: x}}}}}}\n", "/no/me", "fix"),
        (
            f"clouds: {{lab: {{compute_api_version: 9, auth: {{{WHO}, password: x}}}}}}\n",
            "compute_api_version is 9, and must be 2, or be left out",
            "fix its entry",
        ),
        (
            f"clouds: {{lab: {{block_storage_api_version: '1', auth: {{{WHO}, password: x}}}}}}\n",
            "block_storage_api_version is 1, and must be 2 or 3",
            "fix its entry",
        ),
        (
            f"clouds: {{lab: {{volume_api_version: '1', auth: {{{WHO}, password: x}}}}}}\n",
            "volume_api_version is 1, and must be 2 or 3",
            "fix its entry",
        ),
        ("clouds:\n", "of the wrong kind", "fix its entry"),
        ("clouds: {other: {}}\n", "'lab' is not known", "other"),
        ("", "'lab' is not known", "none"),
    ],
)
def test_a_broken_clouds_yaml_is_reported_with_a_cure(
    clouds: Path, text: str, message: str, cure: str
) -> None:
    clouds.write_bytes(text.encode("latin-1"))
    with pytest.raises(CredentialsError, match=message) as caught:
        open_cloud({"cloud": "lab"})
    assert cure in str(caught.value.cure)


def test_another_cloud_that_is_broken_does_not_matter(clouds: Path, url: str) -> None:
    write_cloud(clouds, url, "p1", region_name="north")
    entries = json.loads(clouds.read_text())["clouds"]
    clouds.write_text(json.dumps({"clouds": {"a": {"auth_type": "magic"}, "b": 1, **entries}}))
    assert open_cloud({"cloud": "lab"}).id == "p1"
    with pytest.raises(CredentialsError, match="no region 'Mars'") as caught:
        open_cloud({"cloud": "lab", "region": "Mars"})
    assert "north" in str(caught.value.cure)


def test_incomplete_os_variables_are_reported_as_such(
    clouds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clouds.write_text("")
    monkeypatch.setenv("OS_AUTH_URL", "http://127.0.0.1:9/v3")
    monkeypatch.setenv("OS_AUTH_TYPE", "magic")
    with pytest.raises(CredentialsError, match="magic") as caught:
        open_cloud({})
    assert "OS_* variables" in str(caught.value.cure)


def test_a_tls_failure_is_reported_at_once(clouds: Path, url: str) -> None:
    write_cloud(clouds, url.replace("http:", "https:"), "p1")
    with pytest.raises(CredentialsError, match="SSL") as caught:
        open_cloud({"cloud": "lab"})
    assert "cacert" in str(caught.value.cure)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Policy doesn't allow os_compute_api:os-quota-sets:show to be performed.", PolicyError),
        ("(rule:update_quota) is disallowed by policy", PolicyError),
        ("Quota exceeded for instances: Requested 1, but already used 1 of 1", QuotaError),
    ],
)
def test_a_policy_error_about_quotas_is_no_quota_error(
    said: str, kind: type[ProviderError]
) -> None:
    refused = ForbiddenException(said, http_status=403)
    assert type(ERRORS.translate(refused, "asking")) is kind


def test_an_auth_url_of_version_2_is_reported_at_once(clouds: Path, url: str) -> None:
    domains = "user_domain_id: default, project_domain_id: default"
    user = f"username: u, password: p, project_name: p1, {domains}"
    old = url.removesuffix("/v3") + "/v2.0"
    clouds.write_text(f"clouds: {{lab: {{auth: {{auth_url: {old}, {user}}}}}}}\n")
    with pytest.raises(CredentialsError, match="Cannot use v2") as caught:
        open_cloud({"cloud": "lab"})
    assert "/v3" in str(caught.value.cure)


def test_an_expired_token_is_no_resource_that_is_gone() -> None:
    """Keystone answers 404 to a login by a token, or an application credential, of no use."""
    tokens = "http://127.0.0.1:5000/v3/auth/tokens"
    refused = NotFound("Failed to validate token", http_status=404, url=tokens, method="POST")
    assert not ERRORS.is_gone(refused)
    shown = ERRORS.translate(refused, "deleting a server")
    assert isinstance(shown, CredentialsError)
    assert "openstack token issue" in str(shown.cure)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 418, 429, 500, None])
def test_every_error_of_a_cloud_has_a_cure(status: int | None) -> None:
    refused = HttpException("no", http_status=status) if status else SDKException("no")
    assert ERRORS.translate(refused, "asking").cure


@pytest.mark.parametrize("made", [{}, {"project": "p-of-a-run"}])
def test_a_resource_of_another_project_is_not_taken_for_deleted(
    clouds: Path, url: str, made: dict[str, str]
) -> None:
    write_cloud(clouds, url, "p1")
    access = {**open_cloud({"cloud": "lab"}).access, **made}
    write_cloud(clouds, url, "p2")
    gone: list[Resource] = []
    resource = Resource("openstack", "network", "osmef-r-net-1", "r", access=access)
    with pytest.raises(CredentialsError, match=f"in the project p1 at {url}") as caught:
        OpenStackProvider.destroy([resource], gone.append)
    assert gone == []
    assert "clouds.yaml" in str(caught.value.cure)
    with pytest.raises(CredentialsError, match="project p1"):
        OpenStackProvider.owned(access)


@pytest.mark.parametrize(
    ("asked", "low", "high"),
    [
        ("7", 7.0, 7.0),
        ("Fri, 31 Dec 2038 23:59:59 GMT", 1e6, 1e12),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0, 0.0),
        ("Fri, 31 Dec 1999 23:59:59 -0000", 0.0, 0.0),
    ],
)
def test_the_pause_that_a_cloud_asks_for_is_a_number_or_a_date(
    asked: str, low: float, high: float
) -> None:
    pause = ERRORS.pause_of(refusal(asked))
    assert pause is not None
    assert low <= pause <= high


@pytest.mark.parametrize("asked", ["", "soon", "-1", "1.5", "\N{SUPERSCRIPT TWO}"])
def test_a_pause_that_makes_no_sense_is_none(asked: str) -> None:
    assert ERRORS.pause_of(refusal(asked)) == 0.0


def refusal(retry_after: str) -> Exception:
    answer = requests.Response()
    answer.status_code = 503
    answer.headers["Retry-After"] = retry_after
    return HttpException("busy", response=answer)


@pytest.fixture
def silent(clouds: Path) -> Iterator[socket.socket]:
    """A keystone that takes connections and says nothing, as that of two clouds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v3"
        both = {name: entry(url, name) for name in ("red", "blue")}
        clouds.write_text(json.dumps({"clouds": both}))
        yield server


def test_a_stop_ends_an_unanswered_login(silent: socket.socket) -> None:
    asked: list[socket.socket] = []
    thread = threading.Thread(target=lambda: asked.append(silent.accept()[0]))
    thread.start()

    def check() -> None:
        if asked:
            raise Interrupted("stopped by SIGINT")

    with pytest.raises(Interrupted):
        open_cloud({"cloud": "red"}, check=check)
    thread.join()
    asked[0].close()


OPENSTACK: dict[str, Any] = {"kind": "openstack", "boot": {"image": "i"}, "default_flavor": "f"}
PROJECTS = {
    "name": "x",
    "provider": {**OPENSTACK, "projects": {"a": "red", "b": "blue"}},
    "tenancy": "different-tenant",
}
SITES = {
    "name": "x",
    "sites": {name: {**OPENSTACK, "cloud": name} for name in ("red", "blue")},
    "endpoints": {"sender": {"site": "red"}, "receiver": {"site": "blue"}},
}


@pytest.mark.parametrize("scenario", [PROJECTS, SITES], ids=["projects", "sites"])
def test_ctrl_c_ends_the_check_of_two_projects_whose_keystone_is_dead(
    osmef: Osmef, silent: socket.socket, scenario: dict[str, Any]
) -> None:
    process = osmef.start("run", osmef.write(json.dumps(scenario), "x.json"))
    silent.settimeout(osmef.end_s)
    with silent.accept()[0], silent.accept()[0]:
        osmef.interrupt(process, signal.SIGINT)
        ended = osmef.finish(process)  # in less time than one answer may take
    assert ended.code == 4, ended.err
    assert "stopped by SIGINT" in ended.err


@pytest.mark.parametrize("scenario", [PROJECTS, SITES], ids=["projects", "sites"])
def test_a_stop_ends_a_session_whose_keystone_is_dead(
    silent: socket.socket, scenario: dict[str, Any], tmp_path: Path
) -> None:
    stop, asked = CancellationToken(), []

    def answer() -> None:
        asked.append(silent.accept()[0])
        stop.request("enough")

    thread = threading.Thread(target=answer)
    thread.start()
    work = SessionJob(
        *(1, "monday", "peak", "x", json.dumps(scenario), "x.json"), str(tmp_path / "x-1"), 1
    )
    with pytest.raises(Interrupted, match="enough"):
        measure(work, stop, Observer())
    thread.join()
    asked[0].close()
    stop.close()
