"""``make openstack-cloud`` and ``make openstack-down``: a cloud by hand."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.openstack.cloud import Cloud
from tests.openstack.errors import CloudError


def tell(text: str) -> None:
    """Show how far it is."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Bring a cloud up or down."""
    usual = Path(tempfile.gettempdir(), f"osmef-openstack-{os.getuid()}")
    parser = argparse.ArgumentParser(prog="python -m tests.openstack", description=__doc__)
    parser.add_argument("command", choices=("up", "down"))
    parser.add_argument("--state", type=Path, default=usual, help="its folder (%(default)s)")
    parser.add_argument("--purge", action="store_true", help="down: remove the folder as well")
    parser.add_argument("--guests", action="store_true", help="up: servers that answer SSH (root)")
    arguments = parser.parse_args()
    try:
        cloud = Cloud(arguments.state, tell, guests=arguments.guests)
        if arguments.command == "up":
            cloud.up()
        else:
            cloud.down(purge=arguments.purge)
    except CloudError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


sys.exit(main())
