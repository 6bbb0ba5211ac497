"""A machine outside of a cloud of the tests, and a scenario of it and the cloud as two sites."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from osmef.remote.login import KeyPair
from tests.sshd import AS_ROOT, CONFIG, OPTIONS

OUTSIDE = "198.51.100.1"
"""The outside, of which the machine is a part, among the addresses of the guests."""


@contextmanager
def machine_outside(folder: Path, inside: Sequence[str]) -> Iterator[dict[str, object]]:
    """Have a machine where a cloud's guests can be reached; yields its line of an inventory."""
    host, user = KeyPair.generate("host"), KeyPair.generate("user")
    (folder / "shm").mkdir()
    for name, text in (("host_key", host.private), ("identity", user.private)):
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
    (folder / "authorized_keys").write_text(user.public)
    (folder / "known_hosts").write_text(f"[127.0.0.1]:2222 {host.public}\n")
    more = f"ListenAddress 127.0.0.1:2222\n{OPTIONS}"
    (folder / "config").write_text(CONFIG.format(directory=folder, more=more))
    alone = ["unshare", "--mount", "sh", "-c", AS_ROOT, "sh", str(folder / "shm")]
    sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", str(folder / "config")]
    with subprocess.Popen([*inside, *alone, *sshd], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("listening on" in line for line in process.stderr)
        yield {
            "ssh": "root@127.0.0.1:2222",
            "identity": str(folder / "identity"),
            "known_hosts": str(folder / "known_hosts"),
            "data_address": OUTSIDE,
        }
        process.terminate()


def both_ways(cloud: Mapping[str, Any], machine: Mapping[str, object]) -> dict[str, Any]:
    """Return a scenario of one short trial, at once to the machine and back."""
    return {
        "name": "both-ways",
        "sites": {"cloud": cloud, "outside": {"kind": "static", "hosts": {"m": machine}}},
        "endpoints": {
            "sender": {"site": "cloud"},
            "receiver": {"site": "outside", "kind": "host"},
        },
        "workload": {
            "kind": "btc",
            "duration": "300ms",
            "interval": "100ms",
            "direction": "both",
        },
        "repeat": 1,
    }


def check(summary: Any) -> None:
    """See that the trial went well, each way, between two sites."""
    (cell,) = summary["cells"]
    assert (cell["n_ok"], cell["distance"], cell["mismatch"]) == (1, 4, [])
    assert cell["metrics"]["aggregate_btc_bps"]["median"] > 0
    assert cell["metrics"]["reverse_aggregate_btc_bps"]["median"] > 0
