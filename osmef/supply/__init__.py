"""Supply of external programs on endpoints: found, bundled, built or installed."""
