"""URIs of libvirt: those of QEMU that run no program here, and write no file.

libvirt's own client runs what ``command`` and the transport ``ext`` name, has the far side run what
``netcat``, ``proxy`` and ``name`` name, hands passwords of ``authfile`` over, writes the file of
``known_hosts``, and trusts anybody by ``no_verify`` (libvirt.org/uri.html). It compares the names
of parameters without case, decodes ``%``, takes ``;`` for ``&``, and the last of two that are the
same. So what is known to be harmless is allowed, in one spelling, and all else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from osmef.scenario.clouds.endpoint import is_loopback

_EXAMPLE = "write it like qemu:///system, qemu:///session or qemu+ssh://me@host/system"
_MOST = 1000
_FORM = re.compile(
    r"qemu(?:\+(?P<transport>[a-z0-9]+))?://(?P<at>[^/?#]*)/(?:system|session)(?:\?(?P<query>.*))?"
)
# No name begins with a dash, which a program would take for an option.
_AT = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9._+-]*@)?"
    r"(?P<host>[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
)
_PATH = r"/[A-Za-z0-9._/+-]+"
_ALL = {"mode": "auto|direct|legacy", "socket": _PATH}
_SSH = {**_ALL, "keyfile": _PATH, "no_tty": "0|1"}
_PARAMETERS: dict[str, Mapping[str, str]] = {
    "unix": _ALL,
    "ssh": _SSH,
    "libssh": _ALL,
    "libssh2": _ALL,
    "tls": {},
    "tcp": {},
}
"""What each transport may be told, and what values that may have."""
_CURES = {
    "ext": "use qemu+ssh://me@host/system; what leads there belongs into ~/.ssh/config",
    "tcp": "use qemu+ssh:// or qemu+tls://",
    "command": "leave it out: ssh finds its settings in ~/.ssh/config (Host, ProxyJump, Port)",
    "known_hosts": "leave it out, and write UserKnownHostsFile into ~/.ssh/config",
    "no_verify": "leave it out; log in once with ssh, and let known_hosts have the host's key",
    "pkipath": "leave it out, and have the certificates in ~/.pki/libvirt",
}


def check_uri(value: str) -> str:
    """Return a URI as it is. Raises ValueError, with the cure behind a semicolon."""
    form = _FORM.fullmatch(value) if len(value) <= _MOST else None
    at = _AT.fullmatch(form["at"]) if form else None
    if form is None or (form["at"] and at is None):
        raise ValueError(f"{value[:60]!r} is no URI of libvirt for QEMU; {_EXAMPLE}")
    host = at["host"] if at else None
    transport = form["transport"] or ("unix" if host is None else "tls")
    if transport not in _PARAMETERS:
        why = "runs a program of its choice" if transport == "ext" else "is not known as harmless"
        cure = _CURES.get(transport, f"use one of: {', '.join(_PARAMETERS)}")
        raise ValueError(f"the transport {transport[:60]!r} of libvirt {why}; {cure}")
    if transport == "tcp" and not is_loopback((host or "localhost").lower()):
        raise ValueError(
            f"the transport 'tcp' of libvirt sends keys of guests readable for all; {_CURES['tcp']}"
        )
    _check_query(form["query"] or "", transport)
    return value


def _check_query(query: str, transport: str) -> None:
    known = _PARAMETERS[transport]
    seen: set[str] = set()
    for one in filter(None, query.split("&")):
        name, _, value = one.partition("=")
        if name not in known:
            usual = f"leave it out; known as harmless here: {', '.join(known) or 'none'}"
            cure = _CURES.get(name.lower(), usual)
            raise ValueError(f"{name[:60]!r} is not allowed in a URI of libvirt; {cure}")
        if name in seen:
            raise ValueError(f"{name!r} stands twice in a URI of libvirt; write it once")
        if re.fullmatch(known[name], value) is None:
            path = "a whole path, of letters, digits and . _ / + -"
            like = path if known[name] == _PATH else known[name].replace("|", " or ")
            raise ValueError(
                f"{name}={value[:60]!r} is not allowed in a URI of libvirt; write {like}"
            )
        seen.add(name)


Uri = Annotated[
    str,
    AfterValidator(check_uri),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^qemu(\+(unix|ssh|libssh2?|tls|tcp))?://[^\s/?#]*/(system|session)(\?\S*)?$",
        }
    ),
]
