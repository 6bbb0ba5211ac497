"""What the console loads late, and that no text which it shows is obeyed by the terminal."""

from __future__ import annotations

import copy
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from osmef.cli.console import PlainConsole, later, plain, print_note
from osmef.results.document import upgrade
from osmef.results.summary import Summary


def test_a_module_is_executed_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_late_module.py").write_text("print('executed')\nvalue = 1\nother = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    code = (
        "from osmef.cli.console import later\n"
        "late = later('a_late_module')\n"
        "late.other = 3\n"
        "print('ready')\n"
        "import a_late_module\n"
        "assert a_late_module is late\n"
        "print(late.value, late.other)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env={"PYTHONPATH": ":".join([str(tmp_path), *sys.path])},
    )  # fmt: skip
    assert told.stdout.split() == ["ready", "executed", "1", "3"]


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(ModuleNotFoundError):
        later("there_is_no_such_module")


def test_a_run_without_figures_loads_nothing_for_figures_and_analysis(tmp_path: Path) -> None:
    """What takes half of the CPU and memory of a short run."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "import osmef.cli.run, osmef.cli.execution\n"
        "from osmef.results.trial import Interval\n"
        "from osmef.results.rundir import RunDirectory\n"
        "run = RunDirectory.create_at(Path(sys.argv[1]), '', '.yaml')\n"
        "run.write_intervals(1, [Interval(trial=1, endpoint='a', role='sender', flow=0,\n"
        "    start_s=0, length_s=1, bytes=1, retransmits=None, rtt_us=None, cwnd=None)])\n"
        "run.finish()\n"
        "heavy = {'pandas', 'matplotlib', 'scipy', 'pyroute2', 'rich.markdown', 'rich.progress',\n"
        "    'numpy', 'pyarrow', 'urllib.request', 'osmef.supply.supply', 'osmef.apt',\n"
        "    'osmef.engine.reap', 'osmef.prices.apis', 'osmef.workloads.siege'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], check=True, stdout=subprocess.PIPE,
        text=True, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert told.stdout.strip() == "[]"


def _loaded(*words: str) -> set[str]:
    """Return the modules that a command has loaded as it ends."""
    code = (
        "import atexit, sys\n"
        "from osmef.__main__ import main\n"
        "atexit.register(lambda: print('loaded', *sys.modules))\n"
        "main()\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    return set(told.stdout.splitlines()[-1].split())


def test_a_wrong_command_line_loads_nothing_that_measures() -> None:
    loaded = _loaded("run", "--connectoins=3")
    assert "osmef.scenario.names" in loaded, "for the hint"
    heavy = {"paramiko", "cryptography", "pyarrow", "pandas", "yaml", "osmef.cli.execution"}
    assert not heavy & loaded
    assert not {name for name in loaded if name.startswith(("osmef.engine.run", "osmef.report"))}


def test_a_run_of_one_kind_loads_no_other(tmp_path: Path) -> None:
    scenario = tmp_path / "one.yaml"
    scenario.write_text(
        "name: one\nworkload: {kind: btc, duration: 100ms, interval: 100ms}\n"
        "expect: {no_such_metric: at least 1}\n"
    )
    loaded = _loaded("run", str(scenario))
    kinds = {name for name in loaded if name.startswith("osmef.workloads.kinds.")}
    assert kinds == {"osmef.workloads.kinds.btc"}
    assert "osmef.cli.execution" in loaded
    assert "numpy.ma" not in loaded


OLD_RUN = Path(__file__).parents[1] / "results/data/quickstart-20261121T031500Z-3f9a"

TITLE = "\x1b]0;owned\x07"
EVIL = (
    f"{TITLE}\x9d0;owned\x9c\x9b2J\x1b[2J\r\x08\x7f\u202e\u2066\u2028\U000e0041"
    "[/x][link=http://a]b:warning:"
)
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# What a bar moves on a terminal: hide and show the cursor, up, erase a line.
MOVES = re.compile(r"\x1b\[\?25[lh]|\x1b\[1A|\x1b\[2K")


def on_a_terminal(argv: list[str], directory: Path) -> tuple[int, str]:
    """Run a program on a terminal, and return its exit code and all that this was sent."""
    here, there = os.openpty()
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "TERM": "xterm-256color",
        "COLUMNS": "200",
    }
    with subprocess.Popen(
        argv, cwd=directory, stdin=there, stdout=there, stderr=there, env=environment
    ) as process:
        os.close(there)
        sent = bytearray()
        while True:
            try:
                part = os.read(here, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            sent += part
    os.close(here)
    return process.returncode, sent.decode(errors="surrogateescape").replace("\r\n", "\n")


def osmef_on_a_terminal(directory: Path, *words: str) -> tuple[int, str]:
    code, sent = on_a_terminal([sys.executable, "-m", "osmef", *words], directory)
    shown = COLOURS.sub("", sent)
    assert OBEYED.search(shown) is None
    assert "Traceback" not in shown
    assert "owned" in shown, "the test has a text that is not shown"
    return code, shown


def test_control_characters_of_a_scenario_are_escaped(tmp_path: Path) -> None:
    scenario = {"name": EVIL, EVIL: 1, "workload": EVIL, "provider": {"kind": EVIL}}
    (tmp_path / "a.json").write_text(json.dumps(scenario))
    code, shown = osmef_on_a_terminal(tmp_path, "validate", "a.json")
    assert code == 2
    assert r"\x1b]0;owned\x07" in shown


@pytest.fixture(scope="module")
def evil_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory in whose summary each text that may be any is an evil one."""
    run = tmp_path_factory.mktemp("received") / OLD_RUN.name
    shutil.copytree(OLD_RUN, run)
    document = json.loads((run / "summary.json").read_text())
    spoilt = 0
    for holder, key in list(texts(document)):
        before, holder[key] = holder[key], EVIL + str(key)
        try:
            Summary.model_validate(upgrade(Summary, copy.deepcopy(document)))
            spoilt += 1
        except ValueError:
            holder[key] = before
    assert spoilt > 10
    (run / "summary.json").write_text(json.dumps(document))
    return run


def texts(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key, one in list(value.items() if isinstance(value, dict) else enumerate(value)):
            if isinstance(one, str):
                yield value, key
            yield from texts(one)


@pytest.mark.parametrize("words", [["show"], ["show", "--json"]])
def test_control_characters_of_a_received_run_are_escaped(evil_run: Path, words: list[str]) -> None:
    code, _ = osmef_on_a_terminal(evil_run, *words, ".")
    assert code == 0


def test_control_characters_of_a_damaged_run_are_escaped(tmp_path: Path) -> None:
    document = json.loads((OLD_RUN / "summary.json").read_text())
    (tmp_path / "summary.json").write_text(json.dumps({**document, EVIL: 1}))
    code, _ = osmef_on_a_terminal(tmp_path, "show", ".")
    assert code == 2


def test_control_characters_of_a_wrong_command_line_are_escaped(tmp_path: Path) -> None:
    code, _ = osmef_on_a_terminal(tmp_path, "show", "a", f"{TITLE}\x9b2J\u202e")
    assert code == 2


HERE = """\

import logging, sys
from rich.markup import escape
from osmef.cli.console import err, out, print_error, print_text, set_up_logging
from osmef.cli.execution import progress_for
from osmef.cli.live_progress import LiveProgress
from osmef.errors import ReachError
evil = sys.argv[1]
set_up_logging(verbose=2)
logging.getLogger("paramiko.transport").warning("Auth banner: %s", evil)
print_error(ReachError(evil, where=evil, cure=evil))
out.print(escape(evil))
print_text(evil)
with progress_for(err, verbose=False, quiet=False) as observer:
    assert isinstance(observer, LiveProgress)
    observer.activity(evil)
    observer.warning(evil)
with progress_for(err, verbose=True, quiet=False) as observer:
    observer.activity(evil)
"""


def test_control_characters_in_progress_logs_and_errors_are_escaped(tmp_path: Path) -> None:
    code, sent = on_a_terminal([sys.executable, "-c", HERE, EVIL], tmp_path)
    assert code == 0, sent
    assert sent.count(r"\x1b]0;owned\x07") >= 8
    shown = MOVES.sub("", COLOURS.sub("", sent)).replace("\r", "")  # the bar begins lines anew
    assert OBEYED.search(shown) is None


@given(st.text(st.characters()))
def test_control_characters_are_escaped_and_harmless_text_is_kept(text: str) -> None:
    assert OBEYED.search(plain(text)) is None
    assert plain(plain(text)) == plain(text)
    harmless = "".join(c for c in text if c.isprintable() or c in "\n\t")
    assert plain(harmless) == harmless
    plain(text).encode()


@pytest.mark.parametrize("text", ["fe80::a:b 10.0.0.1", "naïve 日本語 👍\tµ\n", "a\u200d\u200cb"])
def test_a_text_of_any_language_stays(text: str) -> None:
    assert plain(text) == text


def test_a_table_is_as_wide_as_what_is_shown() -> None:
    console = PlainConsole(width=60, record=True, file=io.StringIO())
    table = Table("name", "value")
    table.add_row(TITLE, "1")
    table.add_row("plain", "2")
    console.print(table)
    lines = [line for line in console.export_text().splitlines() if "│" in line]
    assert len({line.rindex("│") for line in lines}) == 1


def test_a_note_is_broken_between_words_on_a_terminal_only() -> None:
    text = "the machines were not [idle]: other programs used 90 % of the CPUs"
    for is_terminal, lines in (
        (True, ["note: the machines were not", "[idle]: other programs used 90", "% of the CPUs"]),
        (False, [f"note: {text}"]),
    ):
        file = io.StringIO()
        console = PlainConsole(
            width=30, file=file, force_terminal=is_terminal, no_color=True, soft_wrap=True
        )
        print_note(console, text, "note")
        shown = re.sub("\x1b\\[[0-9;]*m", "", file.getvalue())
        assert [line.rstrip() for line in shown.splitlines()] == lines
