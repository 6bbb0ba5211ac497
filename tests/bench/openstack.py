"""``make bench-openstack``: making and deleting pairs on an OpenStack, and what that costs.

The provider against the plain loop of the SDK, which makes the same things one after the other.
Brings up the cloud of the tests, unless it is given one, and writes its section of the page.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import openstack

from tests.bench.openstack_pairs import with_provider, with_sdk
from tests.bench.openstack_section import Outcome, section
from tests.bench.report import write
from tests.openstack.calls import recorded
from tests.openstack.cloud import Cloud

PAGE = Path("docs/benchmarks.md")
PAIRS = 50
Contestant = Callable[[int, Callable[[], None]], None]


def measure(cloud: Cloud, work: Contestant, pairs: int) -> Outcome:
    """Let one of them make and delete so many pairs."""
    cpu_s, began = cloud.processes.cpu_s(), time.monotonic()
    made = began

    def all_made() -> None:
        nonlocal made
        made = time.monotonic()

    with recorded(cloud) as calls:
        work(pairs, all_made)
        ended = time.monotonic()
    after = cloud.processes.cpu_s()
    used = {name: after[name] - before for name, before in cpu_s.items()}
    return Outcome(pairs, made - began, ended - made, used, calls)


def raise_quotas(pairs: int) -> None:
    """Let the project have so many pairs."""
    with openstack.connect(cloud="admin") as admin:
        project = admin.identity.find_project("alpha", ignore_missing=False)  # type: ignore[union-attr]
        room = 2 * pairs + 10
        admin.compute.update_quota_set(
            project, instances=room, cores=room, ram=-1, server_groups=room
        )
        admin.network.update_quota(project.id, floatingip=room, port=2 * room)


@contextmanager
def cloud_of(state: Path | None) -> Iterator[Cloud]:
    """Hand out the cloud of this state folder, or a new one for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="osmef-bench-", ignore_cleanup_errors=True) as folder:
        cloud = Cloud(state or Path(folder), lambda text: show(f"{text}\n"))
        try:
            cloud.up()
            os.environ["OS_CLIENT_CONFIG_FILE"] = str(cloud.clouds_yaml)
            yield cloud
        finally:
            if state is None:
                cloud.down()


def show(text: str) -> None:
    """Write to the terminal now."""
    sys.stdout.write(text)
    sys.stdout.flush()


def main() -> int:
    """Measure both, and write the section."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.openstack", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="another number is only shown")
    parser.add_argument("--state", type=Path, help="folder of a cloud that is to be used and kept")
    arguments = parser.parse_args()
    with cloud_of(arguments.state) as cloud:
        raise_quotas(arguments.pairs)
        found = {}
        for name, work in {"provider": with_provider, "SDK loop": with_sdk}.items():
            measure(cloud, work, 1)  # services read and fill their caches when they are first asked
            found[name] = measure(cloud, work, arguments.pairs)
            show(f"{name}: {found[name].wall_s:.1f} s\n")
    text = section(found).text()
    if arguments.pairs == PAIRS:
        write(PAGE, [text])
    show(f"\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
