"""ping and pong in several languages: programs of our own, and what runs them on an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import osmef
from osmef.supply.program import Program, Source, Way

_ROOT = Path(osmef.__file__).parent
_PACKAGED = _ROOT / "agent" / "pingpong"
_SOURCES = _PACKAGED if _PACKAGED.is_dir() else _ROOT.parent / "agents" / "pingpong"
"""Where the programs lie: in an installed package, or in the source tree."""

_THERE: tuple[Way, ...] = ("present",)
"""An interpreter has hundreds of files besides itself, which no bundle holds."""

# Ruby has had no HTTP server among its own libraries since 3.0. 127 says that it can't be run.
_WEBRICK = """\
begin
  require 'webrick'
rescue LoadError
  puts 'its webrick is missing: apt install ruby-webrick, or gem install webrick'
  exit 127
end
puts "#{RUBY_DESCRIPTION}, webrick #{WEBrick::VERSION}"
"""


class Implementation(StrEnum):
    """The languages of ping and pong; c is the agent itself."""

    C = "c"
    GO = "go"
    JAVA = "java"
    NODE = "node"
    PYTHON = "python"
    RUBY = "ruby"
    DART = "dart"


@dataclass(frozen=True)
class Language:
    """How ping and pong are had and started in a language."""

    program: Program
    """What is pushed to the endpoint."""
    words: tuple[str, ...]
    """What starts it; its arguments go behind."""
    runtime: Program | None = None
    """What runs it there; nothing for a program by itself."""


def _interpreted(language: str, source: Source, runtime: Program, *words: str) -> Language:
    program = Program(f"pingpong-{language}", source=source, how=("build",))
    return Language(program, (runtime.name, *words), runtime)


def _script(language: str, file: str, runtime: Program, *words: str) -> Language:
    source = Source(steps=(), products=(file,), path=_SOURCES / language, language="script")
    return _interpreted(language, source, runtime, *words, file)


_GO = Program(
    "pingpong-go",
    source=Source(
        steps=(("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "made", "pingpong.go"),),
        products=("made",),
        path=_SOURCES / "go",
        language="go",
    ),
    how=("build",),
)
_JAVA = Source(
    steps=(
        ("javac", "--release", "11", "-d", "made", "PingPong.java"),
        ("jar", "--create", "--file", "pingpong.jar", "-C", "made", "."),
    ),
    products=("pingpong.jar",),
    path=_SOURCES / "java",
    language="java",
)

LANGUAGES: Mapping[Implementation, Language] = {
    Implementation.GO: Language(_GO, (_GO.name,)),
    Implementation.JAVA: _interpreted(
        "java",
        _JAVA,
        Program("java", package="default-jre-headless", version=("-version",), how=_THERE),
        *("-cp", "pingpong.jar", "PingPong"),
    ),
    Implementation.NODE: _script(
        "node", "pingpong.js", Program("node", package="nodejs", how=_THERE)
    ),
    Implementation.PYTHON: _script("python", "pingpong.py", Program("python3", how=_THERE)),
    Implementation.RUBY: _script(
        *("ruby", "pingpong.rb"),
        Program("ruby", packages=("ruby-webrick",), how=_THERE, version=("-e", _WEBRICK)),
    ),
    Implementation.DART: _script("dart", "pingpong.dart", Program("dart", how=_THERE)),
}
"""All but the agent's own."""
