"""The campaign file, its calendar, and its plan: what is measured when, how long, at what cost."""
