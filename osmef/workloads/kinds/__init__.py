"""The workloads of the project: a module each, with its settings and its numbers."""
