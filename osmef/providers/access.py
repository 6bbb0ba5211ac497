"""Validation of an ``access``: how a scenario, a journal or a user reaches a cloud."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from osmef.errors import InputError
from osmef.providers import provider_class


def check_access(kind: str, access: Mapping[str, str], where: str, *, whole: bool = True) -> None:
    """Check each value of an ``access`` by the type of its setting.

    So it runs no program here, and sends no credentials to strangers. Connects to nothing. What
    lacks is wrong, too, where the access should be ``whole``. Raises InputError, and ProviderError
    where the kind of cloud is not known.
    """
    try:
        provider_class(kind).access_model.model_validate(dict(access), strict=True)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            if one["type"] == "missing" and not whole:
                continue
            key = ".".join(str(part) for part in one["loc"])
            told = str(one.get("ctx", {}).get("error") or one["msg"])
            why, _, cure = told.partition("; ")
            raise InputError(
                f"the way to {kind} can't be taken: {key}: {why}",
                where=where,
                cure=cure or "look at what wrote it, and remove it",
            ) from None
