"""Provider of Microsoft Azure.

``access`` reaches a subscription and knows what its errors mean, ``resource_types`` what is made,
``teardown`` destroys it with its resource groups. ``lookup`` finds what a scenario names and the
quotas, ``placement``, ``network`` and ``vms`` say what is asked for, ``provider`` makes it.
"""
