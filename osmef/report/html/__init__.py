"""The report: one HTML page of runs, which opens without a network."""
