"""The exercise of the page about adding a provider: it lists the VMs of a fifth cloud."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from osmef.errors import PolicyError
from osmef.providers import retry
from osmef.providers.base import Resource
from osmef.providers.cloud import resource_types, teardown
from osmef.providers.marks import Mark
from tests.providers.quick import QuickTime

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-provider.md"


class Fake(HTTPServer):
    """The API of the fifth cloud; it answers with the statuses of ``refusals`` before it works."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        ours, theirs = Mark("a-run", 1, 2).tags, {"owner": "somebody"}
        self.vms = [{"id": f"v{n}", "name": "a", "tags": t} for n, t in enumerate((ours, theirs))]
        self.refusals: list[int] = []


class Handler(BaseHTTPRequestHandler):
    """Lists VMs, and deletes one."""

    server: Fake

    def do_GET(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        id_ = self.path.rpartition("/")[2]
        if not self.server.refusals:
            self.server.vms = [one for one in self.server.vms if one["id"] != id_]
        self._answer()

    def _answer(self) -> None:
        refusals = self.server.refusals
        self.send_response(refusals.pop(0) if refusals else 200)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.vms).encode())

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    monkeypatch.setattr(retry, "time", QuickTime())
    server = Fake()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def shown_code() -> str:
    """Return the module that the page shows."""
    text = PAGE.read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (code,) = [one for one in blocks if "ErrorTable(" in one]
    return code


@pytest.fixture
def mycloud(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that the page shows."""
    code = shown_code()
    module = ModuleType("osmef_mycloud")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look it up there
    exec(compile(code, str(PAGE), "exec"), vars(module))  # noqa: S102 - our own page
    return module


def test_the_vms_of_a_fifth_cloud_are_listed_and_taken_away(
    mycloud: ModuleType, fake: Fake
) -> None:
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
            input=shown_code(),
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
