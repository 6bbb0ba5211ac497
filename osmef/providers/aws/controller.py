"""The address at which Amazon sees this machine."""

from __future__ import annotations

import urllib.request
from ipaddress import IPv4Address
from urllib.error import HTTPError

from osmef.errors import ProviderError
from osmef.scenario.clouds.aws import AwsSettings

_ASK = "https://checkip.amazonaws.com"
_ANSWER_S = 10.0
_MOST_BYTES = 64


def controller_of(settings: AwsSettings) -> str:
    """Return the block from which SSH is let in. Raises ProviderError.

    Without ``controller_cidr`` it is the one address that Amazon's own service tells, which its
    guides use for this, too; not asked when the API is elsewhere. No proxy is asked through: SSH
    takes none either, and it is SSH's address that counts.
    """
    if settings.controller_cidr is not None:
        return settings.controller_cidr
    if settings.endpoint_url is not None:
        raise ProviderError(
            "nobody tells at which address the instances see this machine",
            where="provider.controller_cidr",
            cure="write it, like 198.51.100.7/32",
        )
    try:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(_ASK, timeout=_ANSWER_S) as answer:
            return f"{IPv4Address(answer.read(_MOST_BYTES).decode().strip())}/32"
    except (OSError, ValueError) as error:
        if isinstance(error, HTTPError):
            error.close()  # it is the answer, too
        raise ProviderError(
            f"{_ASK} does not tell at which address Amazon sees this machine: {error}",
            where="provider.controller_cidr",
            cure="write it, like 198.51.100.7/32",
        ) from error
