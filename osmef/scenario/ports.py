"""The ports at which endpoints measure: what a firewall between two of them has to let through."""

DATA_PORTS = range(20000, 21000)
"""TCP and UDP. They lie below the ports that kernels choose by themselves for outgoing traffic."""
