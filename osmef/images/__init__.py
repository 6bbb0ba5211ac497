"""Guest images made of a distribution's packages, and what a guest is given at its boot."""
