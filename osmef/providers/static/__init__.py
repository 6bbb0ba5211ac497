"""Static hosts: machines that are there already, reached by SSH."""
