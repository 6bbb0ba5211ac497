"""Read a file of a user's into nodes: JSON where its name ends in ``.json``, else YAML."""

from __future__ import annotations

from pathlib import Path

from osmef.errors import InputError
from osmef.named_file import UnfitFileError, read_file
from osmef.scenario.json_text import read_json
from osmef.scenario.node import Builder, Node, Source
from osmef.scenario.yaml_text import read_yaml

MAX_BYTES = 256 * 1024


def is_json(path: Path) -> bool:
    """Tell JSON from YAML by the name of the file."""
    return path.suffix.lower() == ".json"


def read_text(path: Path) -> str:
    """Return the text of a file. Raises InputError."""
    where = str(path)
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise InputError("there is no such file", where=where, cure="check the path") from None
    except IsADirectoryError:
        cure = "name one of the .yaml or .json files in it"
        raise InputError("this is a directory", where=where, cure=cure) from None
    except OSError as error:
        cure = "check the path and the permissions"
        if isinstance(error, UnfitFileError):
            cure = error.cure
        raise InputError(f"can't be read: {error.strerror}", where=where, cure=cure) from None
    return _decode(data, where)


def read_nodes(text: str, path: Path) -> tuple[Node | None, Builder]:
    """Read a text as its file's name tells; None where it is empty. Raises InputError."""
    source = Source(str(path), text.removeprefix("\ufeff"))
    return read_json(source) if is_json(path) else read_yaml(source)


def _decode(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        good = Source(where, data[: error.start].decode() + "?")
        raise good.error(
            len(good.text) - 1,
            f"the file is not UTF-8: byte 0x{data[error.start]:02X} is no text",
            "save it as UTF-8; is this a scenario file?",
        ) from None
