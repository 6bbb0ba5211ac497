"""Base class of all models of files, and settings whose model is selected by their ``kind``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from osmef.kinds import KindError, Kinds


class Model(BaseModel):
    """Immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by their keys in files."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def conflict(message: str, cure: str, *keys: str) -> PydanticCustomError:
    """Return the validation error of several keys that do not go together.

    ``keys`` are the keys concerned, dotted where they are nested, relative to the model whose
    validator raises the error: the user is shown the place where one of them is written.
    """
    return PydanticCustomError(
        "conflict", "{message}", {"message": message, "cure": cure, "keys": keys}
    )


@dataclass(frozen=True)
class ByKind:
    """Marks a field with settings of any kind: a kind alone, or keys with or without their kind.

    ``usual`` is the default kind; ``only`` returns whether a model is allowed there.
    """

    kinds: Kinds
    usual: str
    only: Callable[[type[Any]], bool] = lambda _model: True

    also: ClassVar[tuple[str, ...]] = ()
    """Words that are allowed there besides the kinds."""
    stacks: ClassVar[bool] = False
    """Whether a list of settings is allowed there."""

    def default(self) -> Any:
        """Return the default kind's settings."""
        return self.kinds.settings(self.usual)()

    def models(self) -> list[type[Model]]:
        """Return the models of all allowed kinds."""
        return [model for model in self.kinds.all_settings() if self.only(model)]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by the model of the kind, which is imported lazily."""
        return core_schema.with_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the union of all kinds, discriminated by ``kind``."""
        choices = {
            str(model.model_fields["kind"].default): model.__pydantic_core_schema__
            for model in self.models()
        }
        return handler(core_schema.tagged_union_schema(choices, "kind"))

    def _read(self, value: Any, info: ValidationInfo) -> Model:
        if isinstance(value, Model):
            return value
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            raise PydanticKnownError("dict_type")
        model = self._model(value.get("kind", self.usual))
        if info.mode == "json":
            return model.model_validate_json(json.dumps(value), strict=True)
        return model.model_validate(value)

    def _model(self, kind: Any) -> type[Model]:
        """Return the model of a kind. Raises PydanticCustomError."""
        try:
            model = self.kinds.settings(kind) if isinstance(kind, str) else None
        except KindError as error:
            if kind in self.kinds.names:
                raise PydanticCustomError(
                    "broken_kind", "{message}", {"message": str(error.message), "cure": error.cure}
                ) from error
            model = None
        if model is None or not self.only(model):
            expected = [str(one.model_fields["kind"].default) for one in self.models()]
            raise PydanticCustomError(
                "unknown_kind", "no such {what}", {"what": self.kinds.what, "expected": expected}
            )
        return model
