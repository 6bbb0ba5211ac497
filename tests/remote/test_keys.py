from __future__ import annotations

import paramiko

from osmef.remote.connection import pkey_of
from osmef.remote.login import KeyPair


def test_a_pair_is_what_paramiko_and_openssh_read() -> None:
    pair = KeyPair.generate("a comment")
    kind, data, comment = pair.public.split(" ", 2)
    assert (kind, comment) == ("ssh-ed25519", "a comment")
    key = pkey_of(pair)
    assert isinstance(key, paramiko.Ed25519Key)
    assert key.get_base64() == data


def test_the_private_key_is_never_shown() -> None:
    pair = KeyPair.generate("x")
    assert "PRIVATE" in pair.private
    assert "PRIVATE" not in repr(pair)
    assert pair.private.splitlines()[1] not in f"{pair}"


def test_every_generated_key_pair_is_different() -> None:
    assert KeyPair.generate("x").public != KeyPair.generate("x").public
