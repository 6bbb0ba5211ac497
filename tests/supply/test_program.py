"""What may be said of a program, and in which ways it is tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from osmef.errors import InputError, SupplyError
from osmef.supply.program import NAMES, Program, SourceCode, find_architecture

SOURCE = SourceCode((("make",),), ("bench",), path=Path("/src"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "name of a program"),
        ({"name": "../sh"}, "name of a program"),
        ({"name": "-x"}, "name of a program"),
        ({"name": "x", "package": "X y"}, "name of a package"),
        ({"name": "ab", "packages": ("--purge",)}, "name of a package"),
        ({"name": "ab", "files": ("share/x",)}, "no path of a file"),
        ({"name": "ab", "files": ("/usr/../etc/shadow",)}, "no path of a file"),
        ({"name": "ab", "files": ("/usr/a\nb",)}, "no path of a file"),
        ({"name": "ab", "libraries": ("/lib/x.so",)}, "is no library"),
        ({"name": "ab", "how": ()}, "not ways to have a program: none"),
        ({"name": "ab", "how": ("bundle", "bundle")}, "not ways"),
        ({"name": "ab", "how": ("guess",)}, "not ways to have a program: guess"),
    ],
)
def test_an_invalid_program_definition_is_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Program(**fields)
    assert caught.value.cure


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "https://x", "path": Path("x")}, "either a URL or a path"),
        ({"url": "https://example.org/x"}, "no SHA-256"),
        ({"url": "file:///etc/passwd", "sha256": "0" * 64}, "no URL of the web"),
        ({"path": Path("x"), "products": ()}, "products are paths"),
        ({"path": Path("x"), "products": ("../x",)}, "products are paths"),
        ({"path": Path("x"), "products": ("/x",)}, "products are paths"),
    ],
)
def test_an_invalid_source_definition_is_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SourceCode(**{"steps": (("make",),), "products": ("x",), **fields})


def test_nothing_is_installed_unless_it_is_allowed() -> None:
    assert Program("bench").ways == ("present", "bundle")
    assert Program("bench", source=SOURCE).ways == ("present", "bundle", "build")
    assert Program("bench", how=("install", "present")).ways == ("install", "present")
    assert Program("bench", how=("build",)).ways == ()
    with pytest.raises(InputError):
        Program("bench", how=("brew",))  # type: ignore[arg-type]


def test_machines_by_each_of_their_names() -> None:
    assert find_architecture("arm64") == find_architecture("aarch64")
    assert find_architecture("ppc64le").debian == "ppc64el"
    assert [find_architecture(name).name for name in NAMES] == list(NAMES)
    with pytest.raises(SupplyError, match="not for 'vax'"):
        find_architecture("vax")
