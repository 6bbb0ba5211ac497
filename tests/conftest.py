"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is slow now and then; how long one example takes says nothing about the code.
settings.register_profile("osmef", deadline=None)
settings.load_profile("osmef")
