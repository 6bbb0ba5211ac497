"""What libvirt's errors mean, and what to do about each."""

from __future__ import annotations

from typing import Any

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    NotFoundError,
    PolicyError,
    ProviderError,
)

# Numbers of virErrorNumber in libvirt's virterror.h, which never change.
_NO_MEMORY, _NO_SUPPORT, _OPERATION_DENIED = 2, 3, 29
_AUTHENTICATION = {45, 79, 94}  # failed, cancelled, unavailable
_ACCESS_DENIED = 88
_MISSING = {42, 43, 49, 50, 62}  # domain, network, pool, volume, filter
_NO_SUCH = {_NO_SUPPORT, *_MISSING}

_GROUP = "add your user to the group libvirt, or use an account that is in it"
_DAEMON = "is libvirtd running there? try: virsh -c URI list"
_SPACE = "make room on the host, or ask for less: flavor, count, parallel"
_WORDS: dict[str, tuple[type[ProviderError], str]] = {
    "Permission denied (publickey": (CredentialsError, "check the login: ssh to that host"),
    "Host key verification failed": (CredentialsError, "add the host to known_hosts: ssh-keyscan"),
    "Permission denied": (CredentialsError, _GROUP),
    "authentication unavailable": (CredentialsError, _GROUP),
    "Cannot allocate memory": (CapacityError, _SPACE),
    "cannot set up guest memory": (CapacityError, _SPACE),
    "No space left on device": (CapacityError, _SPACE),
    "/dev/kvm": (PolicyError, "let QEMU use /dev/kvm on the host, or set accelerator: tcg"),
    "Failed to connect socket": (ApiError, _DAEMON),
    "Cannot recv data": (ApiError, _DAEMON),
    "unable to connect to server": (ApiError, _DAEMON),
}
_RIGHT = "ask the owner of the host for this right"
_CODES: dict[int, tuple[type[ProviderError], str]] = {
    **dict.fromkeys(_AUTHENTICATION, (CredentialsError, _GROUP)),
    **dict.fromkeys((_ACCESS_DENIED, _OPERATION_DENIED), (PolicyError, _RIGHT)),
    **dict.fromkeys(_MISSING, (NotFoundError, "check the name with virsh on that host")),
    _NO_MEMORY: (CapacityError, _SPACE),
    _NO_SUPPORT: (ProviderError, "use a libvirt with drivers for QEMU, storage and networks"),
}


def translate(error: Any, doing: str, where: str) -> ProviderError:  # libvirt brings no types
    """Return an error of libvirt as one of ours, with its cure."""
    message = f"{doing}: {error.get_error_message() or error}"
    code = error.get_error_code()
    for words, (kind, cure) in _WORDS.items():
        if words in message:
            return kind(message, where=where, cure=cure)
    kind, cure = _CODES.get(code, (ApiError, "look at the log of libvirtd on that host"))
    return kind(message, where=where, cure=cure)


def is_missing(error: Any) -> bool:
    """Tell whether a thing is not there, or can't be as its driver is not."""
    return error.get_error_code() in _NO_SUCH
