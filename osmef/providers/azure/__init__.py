"""The Azure provider.

``access`` reaches a subscription and repeats what it may fail at, ``failures`` says what its
errors mean, ``kinds`` knows the kinds of things and what is ours, ``removal`` takes it away.
``names`` looks up what a scenario names, ``needs`` compares a plan with the quotas, ``placing``,
``networks`` and ``vms`` say what is asked for, ``building`` makes it in order, ``reach`` waits for
SSH, ``provider`` is what the engine talks to.
"""
