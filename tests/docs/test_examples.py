"""Who does what the page on workloads says, in an empty directory, has a workload."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import osmef
from tests.docs.test_manual import DOCS, hooks

PAGE = "adding-a-workload.md"
EXAMPLES = DOCS / "examples"
_FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Without the internet: what packages need is in the environment of the tests.
_OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--no-compile")
_QUICK = ("--no-figures", "--set", "workload.duration=200ms", "--set", "repeat=2")


@dataclass(frozen=True)
class Stranger:
    """An empty directory, and an environment that has osmef, what it needs, and nothing else."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "environment" / "bin" / "python"

    def prepare(self) -> None:
        """Make the environment; it sees what the tests see, and nothing sees what it gets."""
        environment = self.folder / "environment"
        venv.create(environment, with_pip=False)
        (packages,) = environment.glob("lib/python*/site-packages")
        theirs = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
        lines = [f"import site; site.addsitedir({path!r})" for path in sorted(theirs)]
        source = Path(osmef.__file__).parents[1]
        (packages / "osmef-of-the-tests.pth").write_text("\n".join([str(source), *lines]))

    def types(self, line: str) -> str:
        """Run a command of the page to its end, and return what it prints."""
        program, *words = shlex.split(line)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        argv = {
            "pip": [*pip, "--python", str(self.python), *words, *_OFFLINE],
            "python": [str(self.python), *words],
            "osmef": [str(self.python), "-m", "osmef", *words],
        }[program]
        done = subprocess.run(
            [*argv, *(_QUICK if words[0] == "run" else ())],
            cwd=self.folder,
            env={key: text for key, text in os.environ.items() if key != "PYTHONPATH"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def summary(self) -> tuple[Path, Any]:
        """Return the directory of the only run, and its summary."""
        (run,) = (self.folder / "results").iterdir()
        return run, json.loads((run / "summary.json").read_text())


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    made = Stranger(tmp_path)
    made.prepare()
    return made


def files(text: str) -> dict[str, str]:
    """Return the files that a page shows, by their names."""
    return dict(_FILE.findall(text))


def built() -> str:
    return str(hooks.on_page_markdown((DOCS / PAGE).read_text(encoding="utf-8")))


def section(package: str) -> str:
    """Return the section that shows a package, as readers have it."""
    (found,) = (part for part in built().split("\n## ") if f'title="{package}/' in part)
    return found


def follow(stranger: Stranger, package: str) -> dict[str, str]:
    """Do what a section says, and return what its commands print.

    Skips the test before the run, where the example's program is missing.
    """
    text = section(package)
    for name, content in files(text).items():
        path = stranger.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    (console,) = _CONSOLE.findall(text)
    printed: dict[str, str] = {}
    command = ""
    for line in console.splitlines():
        if line.startswith("$ "):
            command = line.removeprefix("$ ")
            if command.startswith("osmef run") and "osmef-ping" in command:
                need_ping()
            printed[command] = stranger.types(command)
        else:
            assert line in printed[command].splitlines()
    return printed


def need_ping() -> None:
    if shutil.which("ping") is None:
        pytest.skip("no ping here (Debian: apt install iputils-ping)")


def numbers(summary: Mapping[str, Any], metric: str) -> list[float]:
    return [cell["metrics"][metric]["median"] for cell in summary["cells"]]


def test_the_page_shows_all_files_of_the_examples() -> None:
    there = {path.relative_to(EXAMPLES).as_posix(): path for path in EXAMPLES.glob("osmef-*/*.*")}
    assert files(built()) == {name: path.read_text() for name, path in there.items()}


def test_a_program_in_one_file(stranger: Stranger) -> None:
    printed = follow(stranger, "osmef-ping")
    assert "6 passed" in printed["python -m pytest osmef-ping"]
    listed = printed["osmef workloads ping"]
    assert "from osmef-ping 1.0" in listed
    for name in ("interval", "icmp_rtt_mean_us", "program_cpu_percent"):
        assert name in listed
    run, summary = stranger.summary()
    assert numbers(summary, "icmp_loss_percent") == [0, 0]
    for metric, place in {"icmp_rtt_mean_us": 1, "icmp_rtt_max_us": 2}.items():
        printed_us = [median_us(run, size, place) for size in ("56", "1400")]
        assert numbers(summary, metric) == pytest.approx(printed_us)
    assert find_spec("osmef_ping") is None, "the tests' own environment has it, too"


def median_us(run: Path, size: str, place: int) -> float:
    """Return the median of what ping itself has printed in the trials of one size."""
    texts = [path.read_text() for path in (run / "raw").glob("*.stdout")]
    lines = [text.splitlines()[-1] for text in texts if f" {size}(" in text.splitlines()[0]]
    assert len(lines) == 2
    return statistics.median(1000 * float(line.split(" ")[3].split("/")[place]) for line in lines)


def test_the_jobs_of_the_agents(stranger: Stranger) -> None:
    printed = follow(stranger, "osmef-turns")
    assert "turns_per_s" in printed["osmef workloads turns"]
    _, summary = stranger.summary()
    assert [cell["n_failed"] for cell in summary["cells"]] == [0, 0, 0]
    assert all(rate > 0 for rate in numbers(summary, "turns_per_s"))
