"""The provider of Google Compute Engine.

``access`` reaches a project and repeats what the API may fail at, ``failures`` says what its
errors mean, ``marks`` and ``kinds`` know what is ours, ``removal`` takes it away. ``names`` looks
up what a scenario names, ``needs`` compares a plan with the quotas, ``networks``, ``placing`` and
``instances`` make things, ``provider`` is what the engine talks to.
"""
