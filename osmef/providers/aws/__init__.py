"""Provider of Amazon EC2: instances in VPCs that are created for the run.

``access`` reaches an account and knows what its errors mean, ``resource_types`` what is made,
listed and deleted, ``lookup`` what a scenario names and the quotas; ``provider`` puts ``network``,
``placement`` and ``instances`` together.
"""
