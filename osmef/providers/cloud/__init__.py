"""Core that all clouds share.

``errors`` says by a table what an error means, ``account`` calls a cloud with retry and creates a
resource never twice, ``resource_types`` is the table of what a run creates, each noted in the
ledger before and after, ``teardown`` destroys it in order of dependency, ``ssh_access`` logs into
guests. ``tenants`` and ``lookup`` are about what a run needs, ``provisioning`` creates it,
``public_cloud`` is the provider.
"""
