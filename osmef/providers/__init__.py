"""Providers: one module or folder for each kind of cloud.

A provider's own modules (and the libraries of its cloud) are only imported when it is used. To
add a provider, write its class, name it here, and add its settings to ``osmef.scenario.model``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from osmef.errors import ProviderError
from osmef.kinds import PROVIDERS, KindError

if TYPE_CHECKING:
    from osmef.providers.base import Provider
    from osmef.scenario.clouds.base import CloudSettings

AMBIENT = ("local",)
"""Kinds that list marked resources without an address: `osmef reap` always asks them."""


def provider_kinds() -> tuple[str, ...]:
    """Return the kinds of clouds, as ``provider: {kind: ...}`` names them."""
    return PROVIDERS.names


def provider_class(kind: str) -> type[Provider]:
    """Return the class of a kind, to list and destroy its resources.

    Raises ProviderError where this version knows no such kind, or the library of its cloud is not
    installed.
    """
    if kind not in PROVIDERS:
        message = f"this version of osmef knows no provider {kind[:80]}"
        cure = (
            "install the package that brings it, or use the version that made it; this one knows"
            f" {', '.join(PROVIDERS.names)}"
        )
        raise ProviderError(message, where="provider", cure=cure)
    try:
        return cast("type[Provider]", PROVIDERS.get(kind))
    except KindError as error:
        raise ProviderError(error.message, where=error.where, cure=error.cure) from error
    except ModuleNotFoundError as error:
        raise ProviderError(
            f"the provider {kind} needs the Python package {error.name}, which is not installed",
            where="provider",
            cure=f"pip install 'osmef[{kind}]'",
        ) from error


def provider_for(settings: CloudSettings) -> Provider:
    """Return the provider of a scenario, which creates nothing yet."""
    make = cast("Callable[[CloudSettings], Provider]", provider_class(settings.kind))
    return make(settings)
