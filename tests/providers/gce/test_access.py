"""Credentials by Google's own chain, and what happens without them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google.auth
import pytest
import requests
from google.api_core.exceptions import from_http_status
from google.auth.transport.requests import AuthorizedSession

from osmef.errors import CredentialsError, NotFoundError
from osmef.providers.gce.access import ERRORS, Project
from osmef.providers.gce.provider import GceProvider
from tests.gce.cloud import GceCloud
from tests.providers.gce.lab import Lab, vm

refused: Callable[..., Exception] = from_http_status
session_of: Callable[..., requests.Session] = AuthorizedSession
CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 429, 500])
def test_every_error_of_google_has_a_cure(status: int) -> None:
    assert ERRORS.translate(refused(status, "no"), "making it").cure


@pytest.fixture
def nobody(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    """Be a user whom nobody gave credentials."""
    monkeypatch.delenv(CREDENTIALS)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    return lab


def test_no_credentials_are_an_error_with_a_cure(nobody: Lab) -> None:
    with pytest.raises(CredentialsError) as caught:
        nobody.provider().check([vm()])
    assert "gcloud auth application-default login" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "no json",
        "{}",
        "[]",
        "null",
        '{"type": "service_account"}',
        '{"type": "impersonated_service_account"}',
        '{"type": "external_account", "credential_source": 5}',
    ],
)
def test_a_file_of_no_use_is_an_error_with_a_cure(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "account.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(CREDENTIALS, str(path))
    with pytest.raises(CredentialsError) as caught:
        lab.provider().check([vm()])
    assert str(path) in str(caught.value)
    assert "Error(" not in str(caught.value), "the cause is in words"
    assert caught.value.cure


def test_a_directory_in_place_of_credentials_is_named(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CREDENTIALS, str(tmp_path))
    with pytest.raises(CredentialsError, match="Is a directory"):
        lab.provider().check([vm()])


def test_credentials_that_the_cloud_does_not_take(
    lab: Lab, gce_cloud: GceCloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The account is that of another cloud: its key signs, and nobody here knows it."""
    other = GceCloud(tmp_path / "other")
    other.make_account()
    monkeypatch.setenv(CREDENTIALS, str(other.credentials))
    with pytest.raises(CredentialsError, match="invalid authentication credentials"):
        lab.provider().check([vm()])


def test_a_run_without_credentials_ends_before_it_begins(lab: Lab, tmp_path: Path) -> None:
    scenario = lab.write()
    gone = tmp_path / "gone.json"
    ended = lab.osmef.finish(
        lab.osmef.start("run", scenario, prefix=("env", f"{CREDENTIALS}={gone}"))
    )
    assert ended.code == 3
    assert "cure:" in ended.err
    assert "Traceback" not in ended.err


def test_project_is_that_of_the_settings_or_of_the_credentials(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Project({}).id == "alpha-1"
    assert Project({"cloud": "beta-2"}).id == "beta-2"
    account = json.loads(lab.cloud.credentials.read_text())
    del account["project_id"]
    path = tmp_path / "account.json"
    path.write_text(json.dumps(account))
    monkeypatch.setenv(CREDENTIALS, str(path))
    with pytest.raises(CredentialsError, match="name no project"):
        Project({})


def test_project_that_is_not_there(lab: Lab) -> None:
    with pytest.raises(NotFoundError, match="gamma-3") as caught:
        GceProvider.owned({"cloud": "gamma-3", "uri": lab.cloud.url})
    assert "gcloud projects list" in str(caught.value.cure)


def test_requests_that_do_not_conform_are_refused_over_http(lab: Lab) -> None:
    """What tests/gce/test_description.py has in full, through the whole of the server."""
    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/compute"])
    url = f"{lab.cloud.url}/compute/v1/projects/alpha-1/global/networks"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"name": "a", "speed": 1}, "invalid"),
        ({"name": "a", "mtu": "many"}, "invalid"),
        ({"name": "A"}, "invalid"),
        ({"name": "a", "networkFirewallPolicyEnforcementOrder": "NEVER"}, "invalid"),
        ({"mtu": 1460}, "required"),
    ]
    with session_of(credentials) as session:
        for body, reason in wrong:
            answer = session.post(url, json=body)
            assert answer.status_code == 400
            assert answer.json()["error"]["errors"][0]["reason"] == reason
        assert session.get(f"{url}?colour=red").status_code == 400
        assert session.get(f"{lab.cloud.url}/compute/v1/nothing").status_code == 404
    assert lab.owned() == []
