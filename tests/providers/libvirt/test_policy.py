"""The rules of the documentation, asked by a real polkit: enough for a run, and no more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.libvirt import lab as laboratory
from tests.libvirt.lab import Lab

ROOT = Path(__file__).parents[3]
RULES = ROOT / "docs/policies/libvirt-polkit.rules"
POLKIT = Path(laboratory.__file__).with_name("polkit.sh")
POLKITD = ("/usr/lib/polkit-1/polkitd", "/usr/libexec/polkitd")


def test_a_member_of_the_group_may_do_all_that_a_run_does_and_nothing_to_others(lab: Lab) -> None:
    if shutil.which("dbus-daemon") is None or not any(map(os.path.exists, POLKITD)):
        pytest.skip("no polkit (Debian: apt install polkitd dbus)")
    alpha = lab["alpha"]
    spaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    user = ("sh", str(POLKIT), str(RULES), sys.executable, "-m", "tests.libvirt.member")
    inside = ("nsenter", f"--target={alpha.pid}", "--mount", "--net", "--pid", "--uts")
    ended = subprocess.run(
        [*inside, *spaces, *user, "qemu:///system"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["ours"] == ["domain", "filter", "network", "pool"]
    assert told["foreign"] == dict.fromkeys(("network", "filter", "pool", "domain"), "policy")
