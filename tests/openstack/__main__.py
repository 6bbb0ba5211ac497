"""``make openstack-cloud`` and ``make openstack-down``: a cloud by hand."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.openstack.cloud import Cloud
from tests.openstack.errors import CloudError
from tests.openstack.packages import cache


def tell(text: str) -> None:
    """Show how far it is."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def make(arguments: argparse.Namespace) -> Cloud:
    """Return the cloud that is wanted. One with real guests needs osmef's own packages."""
    if not arguments.real:
        return Cloud(arguments.state, tell, guests=arguments.guests)
    from tests.guest_image import kept_image  # noqa: PLC0415
    from tests.openstack.real import RealCloud  # noqa: PLC0415

    return RealCloud(arguments.state, lambda: kept_image(cache() / "guest-image"), tell)


def main() -> int:
    """Bring a cloud up or down."""
    usual = Path(tempfile.gettempdir(), f"osmef-openstack-{os.getuid()}")
    parser = argparse.ArgumentParser(prog="python -m tests.openstack", description=__doc__)
    parser.add_argument("command", choices=("up", "down"))
    parser.add_argument("--state", type=Path, default=usual, help="its folder (%(default)s)")
    parser.add_argument("--purge", action="store_true", help="down: remove the folder as well")
    parser.add_argument("--guests", action="store_true", help="up: servers that answer SSH (root)")
    parser.add_argument("--real", action="store_true", help="hosts, networks, guests: all real")
    arguments = parser.parse_args()
    try:
        cloud = make(arguments)
        if arguments.command == "up":
            cloud.up()
        else:
            cloud.down(purge=arguments.purge)
    except CloudError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


sys.exit(main())
