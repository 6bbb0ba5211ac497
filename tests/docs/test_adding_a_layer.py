"""The layer of the page about adding one passes the checks of the project, as it is shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pydantic import BaseModel

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-layer.md"
CODE = PAGE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]


def test_lint_accepts_the_module_of_the_page() -> None:
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--extend-select", "ANN001,ANN201"], ["format", "--check"]):
        done = subprocess.run(
            [*ruff, *command, "--stdin-filename", "osmef/layers/kinds/ipvlan.py", "-"],
            cwd=PAGE.parents[1],
            input=CODE,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_key_of_the_layer_of_the_page_has_a_description() -> None:
    found: dict[str, type[BaseModel]] = {}
    exec(compile(CODE, str(PAGE), "exec"), found)  # noqa: S102 - our own page
    fields = found["IpvlanSettings"].model_fields
    assert [key for key, field in fields.items() if not field.description] == []
