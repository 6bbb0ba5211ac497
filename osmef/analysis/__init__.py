"""Statistics: pure functions on numbers and frames."""
