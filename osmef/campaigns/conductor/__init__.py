"""The conductor: the loop that begins sessions, leaves them out, and cleans up after them."""
