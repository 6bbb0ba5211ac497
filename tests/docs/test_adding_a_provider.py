"""The exercise of the page about adding a provider: it lists the VMs of a fifth cloud."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from osmef.errors import PolicyError
from osmef.providers import retry
from osmef.providers.base import Resource
from osmef.providers.cloud import resource_types, teardown
from tests.providers.quick import QuickTime

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-provider.md"


def shown(what: str) -> str:
    """Return the code of the page with this in it."""
    text = PAGE.read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (code,) = [one for one in blocks if what in one]
    return code


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Make modules of what the page shows."""

    def load_(what: str) -> ModuleType:
        module = ModuleType("osmef_mycloud")
        monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look it up there
        exec(compile(shown(what), str(PAGE), "exec"), vars(module))  # noqa: S102 - our own page
        return module

    return load_


@pytest.fixture
def fake(load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The API of the fifth cloud, as the page shows it."""
    monkeypatch.setattr(retry, "time", QuickTime())
    server = load("HTTPServer").Fake()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_vms_of_a_fifth_cloud_are_listed_and_taken_away(
    load: Callable[[str], ModuleType], fake: Any
) -> None:
    mycloud = load("ErrorTable(")
    project = mycloud.Project({"uri": f"http://127.0.0.1:{fake.server_port}"})
    fake.refusals = [503, 429]
    (found,) = resource_types.owned(mycloud.TYPES, [project], None)
    assert (found.id, found.name, found.mark.run) == ("v0", "a", "a-run")
    fake.refusals = [200, 403]  # to the list, and to the deletion
    with pytest.raises(PolicyError) as caught:
        teardown.destroy(mycloud.TYPES, [(found.resource, project)], lambda _one: None)
    assert caught.value.cure == "ask the project's owner for the right"
    gone: list[Resource] = []
    teardown.destroy(mycloud.TYPES, [(found.resource, project)], gone.append)
    assert gone == [found.resource]
    assert [one["id"] for one in fake.vms] == ["v1"]


def test_lint_accepts_the_module_of_the_page() -> None:
    path = "osmef/providers/mycloud/resource_types.py"
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--extend-select", "ANN001,ANN201"], ["format", "--check"]):
        done = subprocess.run(
            [*ruff, *command, "--stdin-filename", path, "-"],
            cwd=PAGE.parents[1],
            input=shown("ErrorTable("),
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
