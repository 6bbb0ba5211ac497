"""Core that all clouds share.

``errors`` says by a table what an error means, ``account`` calls a cloud with retry and makes a
thing never twice, ``resource_types`` is the table of what a run makes, ``maker`` notes it before
and after, ``teardown`` destroys it in order, ``ssh_access`` gets into guests. ``tenants``,
``lookup``, ``quota``, ``network`` and ``placement`` are about what a run needs, ``build`` makes it,
``hosts`` are physical ones beside, ``public_cloud`` is the provider.
"""
