"""What was measured: the run directory and its schemas."""
