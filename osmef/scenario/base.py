"""Base class of all models of files."""

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError


class Model(BaseModel):
    """Immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by their keys in files."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def conflict(message: str, cure: str, *keys: str) -> PydanticCustomError:
    """Return the validation error of several keys that do not go together.

    ``keys`` are the keys concerned, dotted where they are nested, seen from the model whose
    validator raises the error: the user is shown the place where one of them is written.
    """
    return PydanticCustomError(
        "conflict", "{message}", {"message": message, "cure": cure, "keys": keys}
    )
