"""How workers collect: each begins with other files, and the garbage collector rests.

Every worker collects every test. Rewriting the asserts of a file is half of that, and is kept in a
file that the next one reads, so workers that begin at different places share it. What is collected
stays until the end: looking for garbage in it, again and again, finds none.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    found = [place for one in config.args for place in sorted(Path(config.rootpath, one).iterdir())]
    tests = [
        str(one) for one in found if one.is_dir() or one.match("test_*") or one.match("*.ipynb")
    ]
    first = int(worker["workerid"].removeprefix("gw")) * len(tests) // worker["workercount"]
    config.args[:] = [*tests[first:], *tests[:first]]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.nodeid.split("::", maxsplit=1)[0])
