"""Files at a URL, through fsspec: a directory, an object store, or whatever it knows."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from osmef.errors import InputError, OsmefError, StorageError

_S3 = "s3://"
_AT_ONCE = 1 << 20
_PATIENCE_S = 60
_CURE = (
    "check the URL, such as s3://BUCKET/NAME, file:///PATH or memory://NAME, and the store's"
    " credentials"
)


class Remote:
    """What is below a URL. Every method raises StorageError when the store does not do its part."""

    def __init__(self, url: str) -> None:
        """Open it. Raises InputError for a URL of no known kind, or without the library for it."""
        self.url = url if url.endswith("://") else url.rstrip("/")
        try:
            self._store, self._root = _open(self.url)
        except ImportError as error:
            cure = "pip install 'osmef[archive]'; other stores want a package of their own"
            raise InputError(f"no library for this: {error}", where=url, cure=cure) from error
        except (ValueError, OSError) as error:
            raise InputError(f"this is no place: {error}", where=url, cure=_CURE) from error
        self._has_directories = not self.url.startswith(_S3)

    def exists(self, name: str) -> bool:
        """Tell whether there is such a file."""
        with self._doing("look for", name):
            return bool(self._store.exists(self._path(name)))

    def put(self, name: str, file: Path) -> None:
        """Copy a file there."""
        with self._doing("write", name):
            if self._has_directories:
                self._store.makedirs(str(PurePosixPath(self._path(name)).parent), exist_ok=True)
            with file.open("rb") as data, self._store.open(self._path(name), "wb") as there:
                shutil.copyfileobj(data, there, _AT_ONCE)

    def get(self, name: str, file: Path) -> None:
        """Copy a file from there."""
        with (
            self._doing("read", name),
            self._store.open(self._path(name), "rb") as data,
            file.open("wb") as here,
        ):
            shutil.copyfileobj(data, here, _AT_ONCE)

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @contextmanager
    def _doing(self, action: str, name: str) -> Iterator[None]:
        # Each library behind fsspec has exceptions of its own.
        try:
            yield
        except OsmefError:
            raise
        except Exception as error:
            told = str(error).strip() or type(error).__name__
            where = f"{self.url}/{name}"
            raise StorageError(f"can't {action} this: {told}", where=where, cure=_CURE) from error


def _open(url: str) -> tuple[Any, str]:
    """Return the store of a URL, and the path there. S3 is Arrow's, which comes with pyarrow."""
    from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra

    if not url.startswith(_S3):
        found: tuple[Any, str] = url_to_fs(url)
        return found
    from fsspec.implementations.arrow import ArrowFSWrapper  # noqa: PLC0415
    from pyarrow.fs import S3FileSystem, resolve_s3_region  # noqa: PLC0415 - slow to load

    path = url.removeprefix(_S3)
    if not path:
        raise ValueError("it names no bucket")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    where = urlsplit(endpoint) if endpoint else None
    told: dict[str, str] = {}
    if where is None:  # AWS itself, whose buckets are each in a region
        told["region"] = resolve_s3_region(path.partition("/")[0])
    else:
        told |= {"endpoint_override": where.netloc, "scheme": where.scheme}
    store = S3FileSystem(connect_timeout=_PATIENCE_S, request_timeout=_PATIENCE_S, **told)
    return ArrowFSWrapper(store), path


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
