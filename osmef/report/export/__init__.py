"""Export of a run's results: a module for each family of formats."""
