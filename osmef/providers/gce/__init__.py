"""Provider of Google Compute Engine.

``access`` reaches a project and knows what its errors mean, ``resource_types`` what is made,
listed and deleted, ``lookup`` what a scenario names and the quotas; ``provider`` puts ``network``,
``placement`` and ``instances`` together.
"""
