"""What the VMs of clouds cost: price lists of ours, of a user, and from the clouds' price APIs."""
