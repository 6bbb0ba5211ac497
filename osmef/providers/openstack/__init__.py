"""Provider of OpenStack.

``access`` reaches a project of a cloud and knows what its errors mean, ``resource_types`` what is
made, listed and deleted. ``lookup`` finds what a scenario names, ``quota`` compares a plan with the
quotas, ``placement``, ``network`` and ``servers`` make things, ``provider`` in order.
"""
