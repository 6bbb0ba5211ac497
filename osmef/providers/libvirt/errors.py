"""Translation of libvirt's errors, each with its cure."""

from __future__ import annotations

import re
from typing import Any

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    HostKeyError,
    LoginError,
    NotFoundError,
    OsmefError,
    PolicyError,
    ProviderError,
    ReachError,
)

Meaning = tuple[type[OsmefError], str]

# Numbers of virErrorNumber in libvirt's virterror.h, which never change.
_NO_MEMORY, _NO_SUPPORT, _OPERATION_DENIED = 2, 3, 29
_AUTHENTICATION = {45, 79, 94}  # failed, cancelled, unavailable
_ACCESS_DENIED = 88
_MISSING = {42, 43, 49, 50, 62}  # domain, network, pool, volume, filter
_NO_SUCH = {_NO_SUPPORT, *_MISSING}

_GROUP = "add your user to the group libvirt, or use an account that is in it"
_DAEMON = "is libvirtd running there? try: virsh -c URI list"
_SPACE = "make room on the host, or ask for less: flavor, count, parallel"
_STORAGE = "name another directory under provider.storage, one that libvirt and QEMU may use"
_HELPER = (
    "let it: `allow BRIDGE` in /etc/qemu/bridge.conf of that host, chmod u+s on qemu-bridge-helper,"
    " and /dev/net/tun open to all"
)
_WAY = "check the address, and the way there: router, VPN, or ProxyJump in ~/.ssh/config"
# What libvirt, ssh and QEMU say, in C's locale; the first that is found counts.
_WORDS: tuple[tuple[str, type[OsmefError], str], ...] = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        HostKeyError,
        "somebody else may be answering at this address; find out who before you go on",
    ),
    (
        "Host key verification failed",
        HostKeyError,
        "log in once with ssh, compare the fingerprint, and let known_hosts have it",
    ),
    (r"Permission denied \(", LoginError, "let ssh in to that host without a password"),
    ("Could not resolve hostname", ReachError, "check its spelling, and the resolver here"),
    ("No route to host|Network is unreachable", ReachError, _WAY),
    ("ssh: .*Connection refused", ReachError, "is sshd running there, on this port?"),
    ("ssh: .*timed out", ReachError, "is the host up? a firewall may drop SSH from here"),
    ("bridge helper", PolicyError, _HELPER),
    ("connect socket .*Permission denied", CredentialsError, _GROUP),
    ("authentication unavailable", CredentialsError, _GROUP),
    ("/dev/kvm", PolicyError, "let QEMU use /dev/kvm on the host, or set accelerator: tcg"),
    ("Permission denied|Read-only file system|cannot create path", PolicyError, _STORAGE),
    (
        "interface MTU on .*No such device",
        NotFoundError,
        "check the bridge under provider.networks: ip link show type bridge",
    ),
    ("Maximum CPUs greater", CapacityError, "use a flavor with fewer vcpus"),
    ("Cannot allocate memory|cannot set up guest memory", CapacityError, _SPACE),
    ("No space left on device", CapacityError, _SPACE),
    ("connect socket|Cannot recv data|unable to connect to server", ApiError, _DAEMON),
)
_RIGHT = "ask the owner of the host for this right"
_CODES: dict[int, Meaning] = {
    **dict.fromkeys(_AUTHENTICATION, (CredentialsError, _GROUP)),
    **dict.fromkeys((_ACCESS_DENIED, _OPERATION_DENIED), (PolicyError, _RIGHT)),
    **dict.fromkeys(_MISSING, (NotFoundError, "check the name with virsh on that host")),
    _NO_MEMORY: (CapacityError, _SPACE),
    _NO_SUPPORT: (ProviderError, "use a libvirt with drivers for QEMU, storage and networks"),
}
_ELSE: Meaning = (ApiError, "look at the log of libvirtd on that host")
_CHANGED = re.compile(r"@{9}.*?HAS CHANGED.*?(SHA256:\S+?)\.? .*", re.DOTALL)


def translate(error: Any, doing: str, where: str) -> OsmefError:  # libvirt brings no types
    """Translate an error of libvirt, or of its ssh transport, and add a cure."""
    said = " ".join(str(error.get_error_message() or error).split())
    found = ((kind, cure) for words, kind, cure in _WORDS if re.search(words, said))
    kind, cure = next(found, None) or _CODES.get(error.get_error_code(), _ELSE)
    told = _CHANGED.sub(r"the host shows another key than known_hosts has, \1", said)
    return kind(f"{doing}: {told}", where=where, cure=cure)


def is_missing(error: Any) -> bool:
    """Return whether an object does not exist, or its driver does not."""
    return error.get_error_code() in _NO_SUCH
