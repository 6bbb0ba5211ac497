"""Provider of static hosts: existing machines, reached by SSH."""
