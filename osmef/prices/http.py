"""JSON over HTTP from a price API."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from osmef.errors import ApiError, CredentialsError, PolicyError, ProviderError

_TIMEOUT_S = 60.0
_MOST_BYTES = 64 * 2**20


class _NoDetour(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: urllib would send the token to any other host."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoDetour)


def get_json(url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the JSON object at a URL of HTTP or HTTPS.

    Raises CredentialsError, PolicyError and ApiError, which say what the API answered.
    """
    if not url.startswith(("https://", "http://")):
        raise ApiError("the address of a price API begins with https://", where=url)
    request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310 - see above
    where = url.partition("?")[0]
    try:
        with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
            found = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(error, where) from None
    except (OSError, ValueError, RecursionError) as error:
        cure = "is this machine online? try again"
        raise ApiError(f"the price API does not answer: {error}", where=where, cure=cure) from error
    if not isinstance(found, dict):
        raise ApiError("the price API answers something else than prices", where=where)
    return found


def _refused(error: urllib.error.HTTPError, where: str) -> ProviderError:
    told = f"the price API refuses: {error.code} {error.reason}"
    if error.code == 401:
        return CredentialsError(told, where=where, cure="log in with the cloud's own tool")
    if error.code == 403:
        cure = "let these credentials read prices, and enable the API in their project"
        return PolicyError(told, where=where, cure=cure)
    wait = error.headers.get("Retry-After")
    return ApiError(told, where=where, cure=f"try again after {wait} s" if wait else "try later")
