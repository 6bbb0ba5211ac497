"""VMs that a campaign keeps from session to session."""
