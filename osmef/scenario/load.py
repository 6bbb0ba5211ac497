"""Read a scenario file, YAML or JSON, and report everything that is wrong with it at once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from osmef.errors import InputError, Problem
from osmef.scenario.arguments import with_arguments
from osmef.scenario.cells import make_cells
from osmef.scenario.classes import with_classes
from osmef.scenario.inventory_file import with_inventories
from osmef.scenario.node import kind_of
from osmef.scenario.override import override
from osmef.scenario.study import Study
from osmef.scenario.sweep import read_sweep
from osmef.scenario.text_file import is_json, read_nodes, read_text
from osmef.scenario.yaml_text import write_yaml

_KEY_WITHOUT_SPACE = re.compile(r"[a-z_]+:\S")
_CAMPAIGN_KEY = "scenarios"
_OWN_KEYS = {"workload", "endpoints", "sweep"}


def load(path: Path, overrides: Mapping[str, str] | None = None) -> Study:
    """Read a scenario file: JSON where its name ends in ``.json``, else YAML.

    ``overrides`` are values for this run by their names, each written as YAML; see
    ``osmef.scenario.override``. Raises InputError, with every Problem in the order of the file.
    """
    return load_text(read_text(path), path, overrides)


def load_text(text: str, path: Path, overrides: Mapping[str, str] | None = None) -> Study:
    """Read the text of a scenario file as ``load`` does; the path says its name and format."""
    tree, builder = read_nodes(text, path)
    if tree is None:
        cure = "begin with a line such as name: my-test"
        raise builder.source.error(0, "the file is empty", cure)
    if not isinstance(tree.content, Mapping):
        what = f"a scenario is a mapping of keys to values, not {kind_of(tree.plain())}"
        cure = "begin with a line such as name: my-test"
        if isinstance(tree.content, str) and _KEY_WITHOUT_SPACE.match(tree.content):
            cure = "put a space after the colon, as in name: my-test"
        raise tree.source.error(tree.index, what, cure)
    if _CAMPAIGN_KEY in tree.content and _OWN_KEYS.isdisjoint(tree.content):
        cure = f"run it with: osmef campaign run {path}"
        key = tree.content[_CAMPAIGN_KEY].key
        raise key.source.error(key.index, "this is a campaign, not a scenario", cure)
    written = tree
    tree, problems = override(tree, overrides or {})
    tree, wrong = with_inventories(tree, path.parent)
    tree, wrong_classes = with_classes(tree)
    values = with_arguments(tree)
    sweep = read_sweep(values.get(("sweep",)))
    cells, more, uncounted = make_cells(values.without("sweep"), sweep)
    problems = _first_of_each_place(builder.problems, problems + wrong + wrong_classes + more)
    if problems:
        raise InputError.from_problems(problems, uncounted)
    if tree is not written:
        data = values.plain()
        text = json.dumps(data, indent=2) + "\n" if is_json(path) else write_yaml(data)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Study(path, text, digest, cells[0].scenario, tuple(cells))


def _first_of_each_place(reading: list[Problem], values: list[Problem]) -> list[Problem]:
    """Leave out what is wrong with a value that could not even be read."""
    unread = {(p.file, p.line, p.column) for p in reading}
    return [*reading, *(p for p in values if (p.file, p.line, p.column) not in unread)]
