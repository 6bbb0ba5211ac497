"""Layers of a scenario: settings, stacking, and short names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, GetJsonSchemaHandler, TypeAdapter, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from osmef.kinds import LAYERS
from osmef.scenario.base import ByKind, Model, conflict
from osmef.scenario.fields import Family, ProviderNetwork, quantity_of

if TYPE_CHECKING:
    from osmef.scenario.model import Scenario

_USUAL = "vxlan"
_MOST = 3
EVERYTHING = frozenset({"tcp", "udp", "gre", "ipip", "esp", "ip", "ethernet"})
"""What a network carries that keeps nothing back."""
OWN_ADDRESSES = EVERYTHING - {"ip", "ethernet"}
"""What one carries that lets packets through of its own addresses alone."""
_SMALLEST_MTU = {Family.IPV4: 576, Family.IPV6: 1280}


class LayerSettings(Model):
    """Settings of a layer. Each kind of layer has a subclass with its own keys."""

    kind: str = Field(description="the kind of layer")
    mtu: int | None = Field(
        default=None,
        ge=576,
        le=65535,
        description="the longest packet inside, in bytes; by default what the network below it"
        " carries whole",
    )

    carried_by: ClassVar[str] = "udp"
    """What the network below has to carry between the endpoints: ``udp``, another protocol of IP by
    its name, ``ethernet`` for frames of addresses of its own, or ``ip`` for packets of such."""

    carries: ClassVar[frozenset[str]] = EVERYTHING
    """What a layer on top of it may send, in the terms of ``carried_by``; empty for none. """

    families: ClassVar[frozenset[Family]] = frozenset(Family)
    """The versions of IP that it carries."""

    needs_exclusive_nics: ClassVar[bool] = False
    """Whether it needs exclusive use of an endpoint's network cards: such layers exist in turns."""

    shown_module: ClassVar[str] = ""
    """The kernel's module that it needs, where /sys/module shows whether that is loaded."""

    @property
    def label(self) -> str:
        """Its short name in cells and tables: the kind, with non-default settings."""
        keys = self.model_dump(mode="json", exclude_defaults=True, exclude={"kind"})
        units = {name: quantity_of(type(self).model_fields[name]) for name in keys}
        shown = {
            name: unit.show(keys[name]).replace(" ", "") for name, unit in units.items() if unit
        }
        return label_of({"kind": self.kind, **keys, **shown})

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield conflicts with the rest of the scenario."""
        yield from self._misplaced(scenario.stack)
        if scenario.family not in self.families:
            yield conflict(
                f"the layer {self.kind} does not carry {scenario.family}",
                f"use family: {' or '.join(sorted(self.families))}, or another layer",
                *("layer", "family"),
            )
        least = _SMALLEST_MTU[scenario.family]
        if self.mtu is not None and self.mtu < least:
            yield conflict(
                f"an MTU of {self.mtu} bytes is too short for {scenario.family}",
                f"write {least} or more",
                *("layer.mtu", "layer", "family"),
            )

    def _misplaced(self, stack: Stack) -> Iterator[PydanticCustomError]:
        """Yield conflicts with the layer below it, if any."""
        index = next(number for number, one in enumerate(stack) if one is self)
        below = stack[index + 1] if index + 1 < len(stack) else None
        if below is None or self.carried_by in below.carries:
            return
        if not below.carries:
            message = f"{below.kind} is no layer that another one can be put on"
            cure = f"write it first: [{below.kind}, {self.kind}]"
            if self.kind == below.kind:
                cure = "write it once"
        else:
            message = f"the layer {below.kind} does not carry what {self.kind} sends"
            possible = [name for name in LAYERS.own if self.carried_by in _carried(name)]
            cure = f"put it on one of: {', '.join(possible)}; or on the network itself"
        yield conflict(message, cure, "layer")


def _carried(kind: str) -> frozenset[str]:
    settings: type[LayerSettings] = LAYERS.settings(kind)
    return settings.carries


Stack = tuple[LayerSettings, ...]
"""A stack of layers, the outermost first."""


def label_of(written: object) -> str:
    """Return the short name of a layer, or of a stack, from a file's value."""
    if isinstance(written, list | tuple):
        return "+".join(map(label_of, written))
    if not isinstance(written, Mapping):
        return str(written)
    plain = {key: value for key, value in written.items() if key != "kind"}
    parts = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in plain.items()]
    kind = str(written.get("kind"))
    return f"{kind}({' '.join(parts)})" if parts else kind


class _Layers(ByKind):
    """Marks the field of a layer: a network of the provider, one of ours, or a stack."""

    also: ClassVar[tuple[str, ...]] = tuple(ProviderNetwork)
    stacks: ClassVar[bool] = True

    def _read(self, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, ProviderNetwork | tuple):
            return value
        if isinstance(value, str) and value in list(ProviderNetwork):
            return ProviderNetwork(value)
        if isinstance(value, list):
            return _stack(value)
        if isinstance(value, dict) and "kind" not in value:
            raise _without_kind()
        if isinstance(value, dict) and value["kind"] in list(ProviderNetwork):
            raise _without_settings(value)
        return (super()._read(value, info),)

    def _model(self, kind: Any) -> type[Model]:
        try:
            return super()._model(kind)
        except PydanticCustomError as error:
            if error.type != "unknown_kind":
                raise
            expected = [*(error.context or {})["expected"], *map(str, ProviderNetwork)]
            context = {"what": self.kinds.what, "expected": expected}
            raise PydanticCustomError("unknown_kind", "no such {what}", context) from error

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe a name, the settings of a kind, and a list of both."""
        names = core_schema.literal_schema([*(str(one) for one in ProviderNetwork), *self._names])
        one = handler(
            core_schema.tagged_union_schema(
                {
                    str(model.model_fields["kind"].default): model.__pydantic_core_schema__
                    for model in self.models()
                },
                "kind",
            )
        )
        choices = [{"enum": self._names}, one]
        several = {"type": "array", "minItems": 1, "maxItems": _MOST, "items": {"anyOf": choices}}
        return {"anyOf": [handler(names), one, several]}

    @property
    def _names(self) -> list[str]:
        return [str(model.model_fields["kind"].default) for model in self.models()]


def _stack(value: list[Any]) -> Stack:
    """Validate a stack of layers. Raises PydanticCustomError, ValidationError."""
    if not value:
        raise PydanticKnownError(
            "too_short", {"field_type": "List", "min_length": 1, "actual_length": 0}
        )
    alone = [one for one in value if isinstance(one, str) and one in list(ProviderNetwork)]
    if alone:
        raise _wrong(
            f"{alone[0]} is no layer that another one can be put on",
            "leave it out; to measure several one after the other, sweep them:"
            " sweep: {layer: [bare, vxlan]}",
        )
    if len(value) > _MOST:
        raise _wrong(
            f"{len(value)} layers on each other are too many",
            f"stack {_MOST} at most; to measure several one after the other, sweep them:"
            " sweep: {layer: [bare, vxlan]}",
        )
    if any(isinstance(one, dict) and "kind" not in one for one in value):
        raise _without_kind()
    return tuple(_adapter().validate_json(json.dumps(value), strict=True))


@cache
def _adapter() -> TypeAdapter[list[LayerSettings]]:
    return TypeAdapter(list[Annotated[LayerSettings, ByKind(LAYERS, _USUAL)]])


def _without_kind() -> PydanticCustomError:
    return _wrong("the layer has no kind", "write its kind, such as kind: vxlan")


def _without_settings(value: dict[str, Any]) -> PydanticCustomError:
    kind, keys = value["kind"], [key for key in value if key != "kind"]
    if not keys:
        return _wrong(f"layer {kind} is written as a word", f"write layer: {kind}")
    return _wrong(
        f"layer {kind} has no {' and no '.join(keys)}",
        f"{kind} is the provider's own network; write layer: {kind}, or name a layer such as vxlan",
    )


def _wrong(message: str, cure: str) -> PydanticCustomError:
    return PydanticCustomError("broken_kind", "{message}", {"message": message, "cure": cure})


AnyLayer = Annotated[ProviderNetwork | Stack, _Layers(LAYERS, _USUAL)]
"""A network of the provider, or layers of ours on the existing one, the outermost first."""
