"""The base of every model that a file is read into."""

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError


class Model(BaseModel):
    """Immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by the keys under which they are written."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def conflict(message: str, cure: str, *keys: str) -> PydanticCustomError:
    """Make the error of a rule that ties several keys of a model together.

    ``keys`` are the keys concerned, dotted where they are nested, seen from the model whose
    validator raises the error: the user is shown the place where one of them is written.
    """
    return PydanticCustomError(
        "conflict", "{message}", {"message": message, "cure": cure, "keys": keys}
    )
