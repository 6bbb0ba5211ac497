"""Make ready what needs the internet, before tests that have none: python -m ... WHAT.

All of it is kept in the user's cache folder, by a hash of what it is made of.
"""

from __future__ import annotations

import sys

from tests.guest_image import kept_image
from tests.openstack import packages


def _openstack_guests() -> None:
    packages.install_real()
    kept_image()


def _openstack_volumes() -> None:
    packages.install()
    packages.install_volumes()


WHAT = {
    "guest-image": kept_image,
    "openstack": packages.install,
    "openstack-guests": _openstack_guests,
    "openstack-volumes": _openstack_volumes,
}

if __name__ == "__main__":
    WHAT[sys.argv[1]]()
