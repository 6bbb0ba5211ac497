"""What can go wrong with the cloud of the tests, told in one line."""

from __future__ import annotations


class CloudError(Exception):
    """The cloud can't be brought up, or isn't; the message says why and names the log."""
