"""The OpenStack provider.

``config`` knows which cloud is meant, ``access`` reaches a project and repeats what a cloud may
fail at, ``failures`` says what its errors mean, ``marks`` and ``kinds`` know what is ours,
``removal`` takes it away. ``names`` looks up what a scenario names, ``needs`` compares a plan with
the quotas, ``networks``, ``groups`` and ``servers`` make things, ``provider`` is what the engine
talks to.
"""
