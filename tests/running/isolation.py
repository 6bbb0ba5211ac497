"""Each worker of the tests has a machine of its own: processes, network, mounts, temporary files.

So no test reads or changes what another one sees, and the scheduler may spread files freely. A
worker and all that it has started end when this process does, however it ends.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import execnet
import pytest
from xdist.scheduler import LoadFileScheduling

WORKER = str(Path(__file__).with_name("worker"))
# A cloud that fills a machine is brought up once: all tests of these folders are one worker's.
_ONE_WORKER = ("tests/openstack/", "tests/providers/openstack/")


# These take longest: begun last, one of them would run on alone.
_FIRST = (
    *("docs/notebooks/", "tests/cli/test_campaign.py", "tests/cli/test_faults.py"),
    *("tests/cli/test_static.py", "tests/providers/sites/", "tests/providers/azure/test_life.py"),
    "tests/providers/conformance/",
    *(
        "tests/report/html/test_page.py",
        "tests/test_kinds.py",
        "tests/workloads/test_trial_runner.py",
    ),
    *("tests/workloads/test_languages.py", "tests/workloads/test_program.py"),
)


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist brings no types
    """Gives each worker whole files, so that what a file makes is made once."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_ONE_WORKER) and self.config.option.tier != "test":
            return _ONE_WORKER[0]
        return nodeid.split("::", maxsplit=1)[0]


class Isolation:
    """Starts the workers of pytest-xdist in namespaces of their own, where the machine can."""

    def __init__(self, home: Path, why_not: str | None) -> None:
        self.home = home
        self.why_not = why_not

    @pytest.hookimpl
    def pytest_xdist_setupnodes(self, specs: Sequence[execnet.XSpec]) -> None:
        for spec in specs:
            command = [WORKER, str(self.home / str(spec.id)), sys.executable]
            spec.python = None if self.why_not else shlex.join(command)

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        config.option.loadscopereorder = False  # by the number of tests, not by what they take
        return Scheduling(config, log)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.why_not is not None:
            terminalreporter.write_line(
                f"tests ran one after the other, without namespaces of their own: {self.why_not}"
            )

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)


def why_not(home: Path) -> str | None:
    """Return why this machine can't isolate a worker; None where it can."""
    try:
        command = [WORKER, str(home / "trial"), "true"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr.strip() or f"exit {done.returncode}") if done.returncode else None


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Before pytest-xdist counts its workers: one, where they could disturb each other."""
    if hasattr(config, "workerinput") or not config.option.numprocesses:
        return
    home = Path(tempfile.mkdtemp(prefix="osmef-tests-"))
    home.chmod(0o711)  # servers of other users have their folders in it
    isolation = Isolation(home, why_not(home))
    if isolation.why_not is not None:
        config.option.numprocesses = 1
    config.pluginmanager.register(isolation)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(_FIRST))


def pytest_configure(config: pytest.Config) -> None:
    # A shell that runs its job in the background has it ignore Ctrl-C, and so all programs under
    # test, and nohup(1) hang-ups: a worker gets neither from a terminal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    else:
        # Whoever ends the tests wants them to take away what they have made.
        signal.signal(signal.SIGTERM, _interrupt)
