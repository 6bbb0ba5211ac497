"""Read a scenario file, YAML or JSON, and report everything that is wrong with it at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from osmef.errors import InputError, Problem
from osmef.scenario.cells import make_cells
from osmef.scenario.json_text import read_json
from osmef.scenario.node import Source, kind_of
from osmef.scenario.override import override
from osmef.scenario.study import Study
from osmef.scenario.sweep import read_sweep
from osmef.scenario.yaml_text import read_yaml, write_yaml

MAX_BYTES = 256 * 1024


def load(path: Path, overrides: Mapping[str, str] | None = None) -> Study:
    """Read a scenario file: JSON where its name ends in ``.json``, else YAML.

    ``overrides`` are values for this run by their names, each written as YAML; see
    ``osmef.scenario.override``. Raises InputError, with every Problem in the order of the file.
    """
    where = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError("there is no such file", where=where, cure="check the path") from None
    except IsADirectoryError:
        cure = "name one of the .yaml or .json files in it"
        raise InputError("this is a directory", where=where, cure=cure) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        cure = "check the path and the permissions"
        raise InputError(f"can't be read: {reason}", where=where, cure=cure) from None
    if len(data) > MAX_BYTES:
        message = f"is larger than {MAX_BYTES // 1024} KiB"
        raise InputError(
            message, where=where, cure="no scenario is that long; is it the right file?"
        )
    return load_text(_decode(data, where), path, overrides)


def load_text(text: str, path: Path, overrides: Mapping[str, str] | None = None) -> Study:
    """Read the text of a scenario file as ``load`` does; the path says its name and format."""
    is_json = path.suffix.lower() == ".json"
    source = Source(str(path), text.removeprefix("\ufeff"))
    tree, builder = read_json(source) if is_json else read_yaml(source)
    if tree is None:
        raise source.error(0, "the file is empty", "begin with a line such as name: my-test")
    if not isinstance(tree.content, Mapping):
        what = f"a scenario is a mapping of keys to values, not {kind_of(tree.plain())}"
        raise source.error(tree.index, what, "begin with a line such as name: my-test")
    tree, problems = override(tree, overrides or {})
    sweep = read_sweep(tree.get(("sweep",)))
    cells, more = make_cells(tree.without("sweep"), sweep)
    problems = _first_of_each_place(builder.problems, problems + more)
    if problems:
        raise InputError.from_problems(problems)
    if overrides:
        data = tree.plain()
        text = json.dumps(data, indent=2) + "\n" if is_json else write_yaml(data)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Study(path, text, digest, cells[0].scenario, tuple(cells))


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


def _first_of_each_place(reading: list[Problem], values: list[Problem]) -> list[Problem]:
    """Leave out what is wrong with a value that could not even be read."""
    unread = {(p.file, p.line, p.column) for p in reading}
    return [*reading, *(p for p in values if (p.file, p.line, p.column) not in unread)]
