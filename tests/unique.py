"""Names that no other test has, nor one of another run of the tests on this machine.

The number of a process is no such name: each worker counts its own from 1 on, while they share the
login's home, control groups and the folder of local clouds.
"""

from __future__ import annotations

import secrets


def unique() -> str:
    """Return a word that is in no other name."""
    return secrets.token_hex(4)
