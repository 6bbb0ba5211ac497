"""Pool of VMs that a campaign keeps between sessions."""
