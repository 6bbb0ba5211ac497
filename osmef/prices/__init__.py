"""Prices of VMs: lists of the project, of a user, and from the clouds' price APIs."""
