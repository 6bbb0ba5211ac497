"""Storage pool of a run on a host: images, overlays, seeds and consoles, moved by libvirt."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from osmef.errors import CapacityError, NotFoundError
from osmef.named_file import open_file
from osmef.providers.libvirt import xml
from osmef.providers.libvirt.connection import Hypervisor, libvirt
from osmef.providers.libvirt.maker import Maker
from osmef.units import format_size

_CHUNK = 1 << 18
_SYSTEM = "/var/lib/libvirt/images"
_SESSION = "~/.local/share/libvirt/images"


def directory_of(uri: str, wanted: str | None) -> str:
    """Return the parent directory of pools on a host."""
    if wanted is not None:
        return wanted
    return str(Path(_SESSION).expanduser()) if urlsplit(uri).path == "/session" else _SYSTEM


@dataclass(frozen=True)
class Store:
    """A pool that is a directory of its own on a host."""

    host: Hypervisor
    name: str
    directory: str

    @classmethod
    def make(cls, host: Hypervisor, maker: Maker, directory: str) -> Store:
        """Create a pool for the run. Raises ProviderError."""
        name = maker.mark.marking_name("pool")
        store = cls(host, name, f"{directory.rstrip('/')}/{name}")

        def start(pool: Any) -> Any:
            if not pool.isActive():
                pool.create(libvirt().VIR_STORAGE_POOL_CREATE_WITH_BUILD)
            return pool

        maker.make(
            host,
            "pool",
            name,
            lambda connection: start(
                connection.storagePoolDefineXML(xml.pool(name, store.directory))
            ),
            lambda connection: start(connection.storagePoolLookupByName(name)),
        )
        return store

    def check_room(self, needed: int) -> None:
        """Raise CapacityError unless the pool has so many free bytes."""

        def ask(connection: Any) -> int:
            return int(connection.storagePoolLookupByName(self.name).info()[3])

        left = self.host.do("asking for the room in the pool", ask)
        if left < needed:
            raise CapacityError(
                f"image and guests need {format_size(needed)} in {self.directory},"
                f" and there is room for {format_size(left)}",
                where=self.host.name,
                cure="make room there, or name another directory under provider.storage",
            )

    def path(self, name: str) -> str:
        """Return the path of a volume on the host."""
        return f"{self.directory}/{name}"

    def put_file(self, name: str, path: Path) -> str:
        """Upload a file shared by guests, and return its path. Raises ProviderError."""
        try:
            with open_file(path) as file:
                return self._put(name, file, path.stat().st_size, secret=False)
        except OSError as error:
            raise NotFoundError(
                f"can't read the image: {error.strerror}", where=str(path), cure="check its rights"
            ) from error

    def put(self, name: str, data: bytes) -> str:
        """Upload secret content, and return its path. Raises ProviderError."""
        return self._put(name, io.BytesIO(data), len(data), secret=True)

    def _put(self, name: str, file: BinaryIO, size: int, *, secret: bool) -> str:
        self._create(name, xml.volume(name, size, secret=secret))

        def chunk(_stream: Any, count: int, _opaque: None) -> bytes:
            self.host.check()
            return file.read(count)

        def send(connection: Any) -> None:
            file.seek(0)
            stream = connection.newStream(0)
            self._volume(connection, name).upload(stream, 0, size, 0)
            stream.sendAll(chunk, None)
            stream.finish()

        self.host.do(f"sending {name}", send)
        return self.path(name)

    def overlay(self, name: str, size: int, backing: str, form: str) -> str:
        """Create an overlay of a volume. Raises ProviderError."""
        self._create(name, xml.volume(name, size, (backing, form)))
        return self.path(name)

    def _create(self, name: str, description: str) -> None:
        self.host.create(
            f"making the volume {name}",
            lambda connection: connection.storagePoolLookupByName(self.name).createXML(description),
            lambda connection: self._volume(connection, name),
        )

    def _volume(self, connection: Any, name: str) -> Any:
        return connection.storagePoolLookupByName(self.name).storageVolLookupByName(name)

    def read(self, name: str, most: int) -> bytes:
        """Return the tail of a file in the pool, of so many bytes. Raises ProviderError."""
        data = bytearray()

        def keep(_stream: Any, part: bytes, _opaque: None) -> int:
            data.extend(part)
            del data[:-most]
            return len(part)

        def fetch(connection: Any) -> None:
            data.clear()
            connection.storagePoolLookupByName(self.name).refresh()  # QEMU made the file
            stream = connection.newStream(0)
            volume = self._volume(connection, name)
            volume.download(stream, max(0, volume.info()[1] - most), 0, 0)
            stream.recvAll(keep, None)
            stream.finish()

        self.host.do(f"reading {name}", fetch)
        return bytes(data)


def remove_pool(pool: Any, tell: Callable[[], None]) -> None:
    """Remove a pool with its volumes and its directory. Raises libvirt's error."""
    module = libvirt()
    if not pool.isActive():
        try:
            pool.create()
        except module.libvirtError:  # its directory is gone
            pool.undefine()
            return
    pool.refresh()
    for volume in pool.listAllVolumes():
        tell()
        volume.delete()
    pool.destroy()
    pool.delete()
    pool.undefine()
