"""WHAT to measure: the scenario file."""
