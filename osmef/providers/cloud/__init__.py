"""Core that all clouds share.

``errors`` says by a table what an error means, ``account`` calls a cloud with retry and creates a
resource never twice, and has the tenants of a run, ``resource_types`` is the table of what a run
creates, each noted in the ledger before and after, ``teardown`` destroys it in order of dependency.
``lookup`` finds what a run needs, ``provisioning`` creates it and logs into its guests,
``public_cloud`` is the provider.
"""
