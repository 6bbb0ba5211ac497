"""The layers of the project: a module each, with its settings and what it makes."""
