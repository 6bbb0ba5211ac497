"""The campaign file, its calendar, and its plan: sessions, length and cost."""
