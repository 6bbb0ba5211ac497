"""The scenario file: its models, and loading with positions of errors."""
