from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import CredentialsError, HostKeyError
from osmef.remote.session import SshSession
from osmef.remote.ssh_config import known_keys
from tests.sshd import Sshd

# Always the same: they stand in the names of the tests.
ONE, TWO, THREE = (
    Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    .public_key()
    .public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    .decode()
    for number in (1, 2, 3)
)


def lookup(tmp_path: Path, text: str, address: str = "node", port: int = 22) -> tuple[str, ...]:
    file = tmp_path / "known_hosts"
    file.write_text(text)
    return known_keys(address, port, [file]).accepted


@pytest.mark.parametrize(
    ("text", "address", "port", "expected"),
    [
        (f"node {ONE} a comment\n", "node", 22, (ONE,)),
        (f"node {ONE}\n", "NODE", 22, (ONE,)),
        (f"node {ONE}\n", "other", 22, ()),
        (f"node {ONE}\n", "node", 2222, ()),
        (f"[node]:2222 {ONE}\n", "node", 2222, (ONE,)),
        (f"[node]:2222 {ONE}\n", "node", 22, ()),
        (f"192.0.2.1,node {ONE}\nnode {TWO}\n", "node", 22, (ONE, TWO)),
        (f"node {ONE}\nnode {ONE}\n", "node", 22, (ONE,)),
        (f"2001:db8::1 {ONE}\n", "2001:db8::1", 22, (ONE,)),
        (f"[2001:db8::1]:2222 {ONE}\n", "2001:db8::1", 2222, (ONE,)),
        (f"*.example.org,!bad.example.org {ONE}\n", "good.example.org", 22, (ONE,)),
        (f"*.example.org,!bad.example.org {ONE}\n", "bad.example.org", 22, ()),
        (f"nod? {ONE}\n", "node", 22, (ONE,)),
        (f"# node {ONE}\n\n   \nnode\tssh-ed25519\n", "node", 22, ()),
        (f"node\t{ONE}\n", "node", 22, (ONE,)),
        ("node ssh-ed25519 AAAA\n", "node", 22, ()),
        (f"node {ONE[:-9]}!!\n", "node", 22, ()),
        (f"@cert-authority *.org,node {ONE}\n", "node", 22, ()),
        (f"@revoked node {ONE}\nnode {TWO}\n", "node", 22, (TWO,)),
        (f"|1|broken {ONE}\n|1|a|b|c {ONE}\n", "node", 22, ()),
    ],
)
def test_lines_mean_what_openssh_reads_in_them(
    tmp_path: Path, text: str, address: str, port: int, expected: tuple[str, ...]
) -> None:
    assert lookup(tmp_path, text, address, port) == expected


@pytest.mark.parametrize(("port", "written"), [(22, "node"), (2222, "[node]:2222")])
def test_names_that_openssh_hashed_are_found(tmp_path: Path, port: int, written: str) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh-keygen here (Debian: apt install openssh-client)")
    file = tmp_path / "known_hosts"
    file.write_text(f"{written} {ONE}\nother {TWO}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, capture_output=True)
    assert "node" not in file.read_text()
    assert known_keys("node", port, [file]).accepted == (ONE,)


def test_an_alias_stands_for_address_and_port(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"alias {ONE}\n[node]:2222 {TWO}\n")
    assert known_keys("node", 2222, [file], alias="alias").accepted == (ONE,)


def test_all_files_are_read_and_missing_ones_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"node {ONE}\n")
    (tmp_path / "b").write_text(f"node {TWO}\n@revoked * {THREE}\n")
    found = known_keys("node", files=[tmp_path / name for name in ("a", "none", "b")])
    assert (found.accepted, found.revoked) == ((ONE, TWO), (THREE,))


def test_a_file_that_can_t_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="directory"):
        known_keys("node", files=[tmp_path])


@given(text=st.text())
def test_no_file_is_a_crash(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "known_hosts"
    file.write_text(text, encoding="utf-8")
    assert known_keys("node", files=[file]).accepted == ()


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("", "log in once with ssh -p 2222 node, compare"),
        (f"[node]:2222 {ONE}", "ssh-keygen -f FILE -R '[node]:2222'"),
        (f"@cert-authority * {ONE}", "FILE has only a @cert-authority for it"),
    ],
)
def test_a_server_with_an_unknown_or_changed_key_is_refused_with_the_way_out(
    sshd: Sshd, tmp_path: Path, line: str, cure: str
) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"{line}\n")
    login = replace(sshd.login(), host_keys=known_keys("node", 2222, [file]))
    with pytest.raises(HostKeyError, match=r"\(as \[node\]:2222\)") as caught:
        SshSession.open(login)
    assert cure.replace("FILE", str(file)) in str(caught.value.cure)
    assert "Accepted" not in sshd.log
