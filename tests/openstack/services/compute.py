"""nova-compute with nova's own fake hypervisor, of a fixed size and restartable.

FakeDriver gives its node a new id at every start, which nova refuses the second time; the one
without fake nodes keeps it in state_path.
"""

import sys

from nova.cmd import compute  # first: it patches the standard library
from nova.virt import fake


class LabDriver(fake.FakeDriverWithoutFakeNodes):
    """One host with room for a hundred small servers and more."""

    vcpus = 64
    memory_mb = 128 * 1024
    local_gb = 1000


fake.LabDriver = LabDriver  # where nova looks for it
sys.argv[0] = "nova-compute"
compute.main()
