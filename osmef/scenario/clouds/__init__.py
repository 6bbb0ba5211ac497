"""The settings of each kind of cloud, a module each."""
