"""Results: the run directory and its schemas."""
