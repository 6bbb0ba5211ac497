"""The base of every model that a file is read into."""

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class Model(BaseModel):
    """Immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def conflict(message: str, cure: str, *keys: str) -> PydanticCustomError:
    """Make the error of a rule that ties several keys of a model together.

    ``keys`` are the keys concerned, dotted where they are nested, seen from the model whose
    validator raises the error: the user is shown the place where one of them is written.
    """
    return PydanticCustomError(
        "conflict", "{message}", {"message": message, "cure": cure, "keys": keys}
    )
