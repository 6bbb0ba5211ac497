"""HTML report of runs: one self-contained page."""
