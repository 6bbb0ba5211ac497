"""Simulations behind the tables of docs/methods.md: ``python -m tests.simulate NAME --draws N``."""
