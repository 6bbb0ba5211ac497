"""``make openstack-cloud`` and ``make openstack-down``: a cloud by hand.

``python -m tests.openstack record`` writes down what the services of one say, which the small cloud
of the tests is to say, too.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.openstack.cloud import Cloud
from tests.openstack.errors import CloudError
from tests.openstack.small.talk import write
from tests.openstack.small.tour import RECORDED, said_by
from tests.openstack.volumes import VolumeCloud


def tell(text: str) -> None:
    """Show how far it is."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def make(arguments: argparse.Namespace) -> Cloud:
    """Return the cloud that is wanted. One with real guests needs osmef and its packages."""
    kind = "osmef-openstack-real" if arguments.real else "osmef-openstack"
    state = arguments.state or Path(tempfile.gettempdir(), f"{kind}-{os.getuid()}")
    if not arguments.real:
        sort = VolumeCloud if arguments.volumes else Cloud
        return sort(state, tell, guests=arguments.guests)
    from osmef.errors import ProviderError  # noqa: PLC0415
    from osmef.images.guest_image import GuestImage  # noqa: PLC0415
    from tests.guest_image import kept_image  # noqa: PLC0415
    from tests.openstack.real import RealCloud  # noqa: PLC0415

    def image() -> GuestImage:
        try:
            return kept_image()
        except ProviderError as error:
            raise CloudError(f"no image for guests: {error}") from error

    return RealCloud(state, image, tell)


def main() -> int:
    """Bring a cloud up or down."""
    parser = argparse.ArgumentParser(prog="python -m tests.openstack", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "record"))
    parser.add_argument("--state", type=Path, help="its folder, by default one in /tmp")
    parser.add_argument("--purge", action="store_true", help="down: remove the folder as well")
    parser.add_argument("--guests", action="store_true", help="up: servers that answer SSH (root)")
    parser.add_argument("--volumes", action="store_true", help="up: cinder, too")
    parser.add_argument("--real", action="store_true", help="hosts, networks, guests: all real")
    arguments = parser.parse_args()
    try:
        cloud = make(arguments)
        if arguments.command == "up":
            cloud.up()
        elif arguments.command == "record":
            write(said_by(cloud), RECORDED)
        else:
            cloud.down(purge=arguments.purge)
    except CloudError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


sys.exit(main())
