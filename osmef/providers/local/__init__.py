"""The local provider: a small cloud on one Linux machine, made of namespaces.

The controller (``provider``, ``sandbox``) starts one sandbox a run: a process with network, mount,
host name, process and, without root, user namespaces of its own. In it the daemon (``daemon``,
``cloud``, ``guest``) makes hosts, a physical network, tenants and VMs. Nothing ever appears in
the machine's own namespaces, and when the daemon dies the kernel takes all of it away.

The daemon's modules import nothing but the standard library, pyroute2 and ``osmef.errors``, since
every run waits for their start.
"""
