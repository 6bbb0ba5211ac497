"""The layers of the project: a module each or for a family, with settings and what is made."""
