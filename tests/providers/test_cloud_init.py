from __future__ import annotations

import base64
import json
import time
from email import message_from_string

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import ProviderError
from osmef.providers.cloud_init import cloud_config, host_keys, keys_in, user_data
from osmef.remote.login import KeyPair

CONSOLE = """\
[  OK  ] Reached target multi-user.target
<14>Nov 21 09:00:00 cloud-init: -----BEGIN SSH HOST KEY FINGERPRINTS-----
<14>Nov 21 09:00:00 cloud-init: 256 SHA256:abc root@vm (ED25519)
<14>Nov 21 09:00:00 cloud-init: -----END SSH HOST KEY FINGERPRINTS-----
-----BEGIN SSH HOST KEY KEYS-----
ecdsa-sha2-nistp256 AAAAE2VjZHNh root@vm
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 root@vm
-----END SSH HOST KEY KEYS-----
debian login:
"""


@pytest.fixture(scope="module")
def keys() -> tuple[KeyPair, KeyPair]:
    return KeyPair.generate("login"), KeyPair.generate("host")


def test_the_guest_gets_the_runs_key_and_its_own_host_key(keys: tuple[KeyPair, KeyPair]) -> None:
    login, host = keys
    text = cloud_config("debian", login, host)
    assert text.startswith("#cloud-config\n")
    config = yaml.safe_load(text)
    assert config["ssh_authorized_keys"] == [login.public]
    assert config["ssh_keys"]["ed25519_private"] == host.private
    assert login.private not in text


def test_without_a_host_key_the_guest_generates_its_own(keys: tuple[KeyPair, KeyPair]) -> None:
    config = yaml.safe_load(cloud_config("root", keys[0], None))
    assert "ssh_keys" not in config
    assert config["disable_root"] is False


@pytest.mark.parametrize(
    ("own", "kind"),
    [("#!/bin/sh\ntrue\n", "text/x-shellscript"), ("#cloud-config\na: 1\n", "text/cloud-config")],
)
def test_user_supplied_userdata_is_sent_along_with_ours(own: str, kind: str) -> None:
    ours = "#cloud-config\n{}\n"
    message = message_from_string(base64.b64decode(user_data(ours, own)).decode())
    parts = message.get_payload()
    assert isinstance(parts, list)
    types = [part.get_content_type() for part in parts]  # type: ignore[union-attr]
    assert types == [kind, "text/cloud-config"]
    texts = [part.get_payload() for part in parts]  # type: ignore[union-attr]
    assert texts == [own, ours]


@pytest.mark.parametrize(
    ("own", "message"),
    [("echo hello", "does not say what it is"), ("#!" + "x" * 70000, "too long")],
)
def test_userdata_that_no_guest_would_take_is_refused(own: str, message: str) -> None:
    with pytest.raises(ProviderError, match=message) as caught:
        user_data("#cloud-config\n{}\n", own)
    assert caught.value.cure is not None


def test_host_keys_are_read_from_the_console_and_fingerprints_are_none() -> None:
    assert host_keys(CONSOLE) == [
        "ecdsa-sha2-nistp256 AAAAE2VjZHNh",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
    ]
    assert host_keys(CONSOLE.partition("-----END SSH HOST KEY KEYS")[0]) == []


@pytest.mark.parametrize(
    "part",
    ["-----BEGIN SSH HOST KEY KEYS-----", "ssh-", "ssh-ed25519 AAAA", "ecdsa-a ", "A", "\x1b[0m"],
)
def test_a_console_that_repeats_itself_takes_no_long_time(part: str) -> None:
    text = part * (4_000_000 // len(part))
    began = time.process_time()
    assert host_keys(text) == []
    whole = f"-----BEGIN SSH HOST KEY KEYS-----{text}\n-----END SSH HOST KEY KEYS-----"
    assert host_keys(whole) == []
    assert time.process_time() - began < 5


@given(st.text() | st.text("AaSsHh -\n=ecdsa"))
def test_every_host_key_found_in_a_console_can_be_parsed(text: str) -> None:
    console = f"-----BEGIN SSH HOST KEY KEYS-----\n{text}\n-----END SSH HOST KEY KEYS-----"
    for key in (*host_keys(console), *keys_in(f"ssh-rsa AAAA{text}")):
        kind, blob = key.split()
        assert kind.isascii()
        assert blob.startswith("AAAA")


def test_our_userdata_alone_is_plain_json() -> None:
    text = base64.b64decode(user_data(cloud_config("a", KeyPair.generate("x"), None), None))
    assert json.loads(text.decode().partition("\n")[2])
