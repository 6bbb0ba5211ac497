"""Plugins of all tests, those of the manual's notebooks included."""

pytest_plugins = [
    "tests.openstack.fixtures",
    "tests.running.again",
    "tests.running.collection",
    "tests.running.isolation",
    "tests.running.tiers",
]
