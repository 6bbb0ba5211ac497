"""The one place on an endpoint that a run writes to."""


def directory_of(run: str, endpoint: str) -> str:
    """Return a directory in the login's home, which several endpoints may share (NFS)."""
    return f".osmef-{run}-{endpoint}"
