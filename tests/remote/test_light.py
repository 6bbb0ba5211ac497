"""What a session loads."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import osmef.remote.session
assert "invoke.runners" not in sys.modules, "it is for Match exec alone"
assert "numpy" not in sys.modules
import invoke
from invoke import Context
import invoke.runners
assert invoke.run("echo it works", hide=True).stdout == "it works\\n"
"""


def test_a_session_loads_no_invoke_and_others_may_still_use_it() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
