"""URIs of libvirt: what is known to be harmless, and nothing else, in one spelling."""

from __future__ import annotations

import pytest

from osmef.scenario.clouds.libvirt import check_uri

SSH = "qemu+ssh://lab/system?"


@pytest.mark.parametrize(
    "uri",
    [
        "qemu:///system",
        "qemu://lab/system",
        "qemu+unix:///session?socket=/run/user/1000/libvirt/libvirt-sock",
        "qemu+tls://lab:16514/system",
        "qemu+tcp://127.0.0.1/system",
        "qemu+tcp://[::1]:16509/system",
        "qemu+libssh://me@lab/system?mode=legacy",
        f"{SSH}mode=direct&socket=/run/libvirt-sock&keyfile=/home/me/.ssh/lab-1&no_tty=1",
    ],
)
def test_a_harmless_libvirt_uri_is_accepted_unchanged(uri: str) -> None:
    assert check_uri(uri) == uri


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        # programs
        ("qemu+ext:///system?command=/bin/x", "the transport 'ext' of libvirt runs a program"),
        ("qemu+ext://lab/system", "the transport 'ext'"),
        (f"{SSH}command=/bin/x", "'command' is not allowed"),
        (f"{SSH}COMMAND=/bin/x", "'COMMAND' is not allowed"),
        (f"{SSH}%63ommand=/bin/x", "'%63ommand' is not allowed"),
        (f"{SSH}command", "'command' is not allowed"),
        (f"{SSH}&&command=/bin/x", "'command' is not allowed"),
        (f"{SSH}mode=auto&command=/bin/x", "'command' is not allowed"),
        (f"{SSH}mode=auto;command=/bin/x", "write auto or direct or legacy"),
        (f"{SSH}socket=/a;command=/bin/x", "write a whole path"),
        (f"{SSH}socket=/a%26command=/bin/x", "write a whole path"),
        (f"{SSH}netcat=/bin/x", "'netcat' is not allowed"),
        (f"{SSH}proxy=netcat", "'proxy' is not allowed"),
        ("qemu:///system?name=test+ext:///x?command=/bin/x", "'name' is not allowed"),
        ("qemu+ssh://-oProxyCommand=x/system", "is no URI"),
        ("qemu+ssh://-x/system", "is no URI"),
        ("qemu+ssh://-x@lab/system", "is no URI"),
        ("qemu+ssh://%2Dx/system", "is no URI"),
        ("qemu+ssh://a`x`/system", "is no URI"),
        ("qemu+ssh://$(x)@lab/system", "is no URI"),
        # other drivers
        ("test:///tmp/x.xml", "is no URI"),
        ("esx://lab/", "is no URI"),
        ("xen:///system", "is no URI"),
        ("QEMU+EXT:///system", "is no URI"),
        ("qemu+SSH://lab/system", "is no URI"),
        ("qemu+vsock://3/system", "the transport 'vsock' of libvirt is not known as harmless"),
        ("qemu:///embed?root=/tmp/x", "is no URI"),
        # files
        ("qemu+libssh2://lab/system?known_hosts=/etc/x", "'known_hosts' is not allowed"),
        ("qemu+libssh2://lab/system?keyfile=/dev/zero", "'keyfile' is not allowed"),
        ("qemu+tls://lab/system?pkipath=/tmp", "'pkipath' is not allowed"),
        (f"{SSH}authfile=/tmp/x", "'authfile' is not allowed"),
        (f"{SSH}keyfile=x", "write a whole path"),
        (f"{SSH}keyfile=/a%0ab", "write a whole path"),
        # who is at the other end
        (f"{SSH}no_verify=1", "'no_verify' is not allowed"),
        ("qemu+libssh://lab/system?known_hosts_verify=ignore", "'known_hosts_verify'"),
        ("qemu+libssh://lab/system?sshauth=password", "'sshauth'"),
        ("qemu+tcp://lab/system", "in clear text"),
        ("qemu+tcp://127.0.0.1.example.org/system", "in clear text"),
        ("qemu+tcp://[::]/system", "in clear text"),
        # two ways to read it
        (f"{SSH}mode=auto&mode=direct", "'mode' is listed twice"),
        ("qemu+ssh://me@you@lab/system", "is no URI"),
        ("qemu+ssh://me:secret@lab/system", "is no URI"),
        ("qemu+ssh://lab/system#?command=/bin/x", "is no URI"),
        ("qemu+ssh://lab/../ext/system", "is no URI"),
        ("qemu:///system\n", "is no URI"),
        ("qemu+ssh://l\u00e4b/system", "is no URI"),
        (f"{SSH}socket=/{'x' * 2000}", "is no URI"),
    ],
)
def test_the_rest_is_refused_with_a_cure(uri: str, said: str) -> None:
    with pytest.raises(ValueError, match="; ") as raised:
        check_uri(uri)
    message, _, cure = str(raised.value).partition("; ")
    assert said in (cure if said.startswith("write") else message)
    assert cure
