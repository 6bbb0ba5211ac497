"""Where sessions run: in threads of this process, or on a Dask cluster."""
