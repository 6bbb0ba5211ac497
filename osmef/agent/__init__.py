"""The controller's side of the agent protocol."""
