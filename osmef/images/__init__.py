"""Guest images of a distribution's packages, and the seed that a guest gets at boot."""
