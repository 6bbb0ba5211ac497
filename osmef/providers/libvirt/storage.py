"""Storage of a run on a host: boot images, disks for cloud-init, and the pool that has them.

A boot image is one of `osmef image build`, or a disk image with cloud-init, whose "NoCloud" data
source is a small disk (cloud-init's manual, "NoCloud" and "Network config version 1"). JSON is
YAML. libvirt moves images, overlays, seeds and consoles.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from osmef.errors import CapacityError, InputError, NotFoundError, ProviderError
from osmef.files import in_home, open_file, scratch
from osmef.images.guest_image import GuestImage, default_directory, load_image
from osmef.programs import find_program, search_path
from osmef.providers.cloud_init import Seed
from osmef.providers.libvirt import xml
from osmef.providers.libvirt.connection import Hypervisor, Maker, libvirt
from osmef.units import format_size

_QCOW2 = b"QFI\xfb"
_HEAD_BYTES = 80
"""Up to the incompatible features of version 3; the third of them is an external data file."""
_WHERE = "provider.image"


@dataclass(frozen=True)
class VolumeImage:
    """A root disk, and for an image of ours its kernel and initrd."""

    root: Path
    format: str
    disk_bytes: int
    guest_image: GuestImage | None

    @property
    def sent_bytes(self) -> int:
        """The size of the files to upload. Raises NotFoundError."""
        own = (self.guest_image.kernel, self.guest_image.initrd) if self.guest_image else ()
        try:
            return sum(path.stat().st_size for path in (self.root, *own))
        except OSError as error:
            raise NotFoundError(
                f"can't read the image: {error.strerror}",
                where=str(error.filename),
                cure="check its permissions",
            ) from error


def find_image(wanted: str) -> VolumeImage:
    """Return the image of this name, directory or file. Raises NotFoundError."""
    path = in_home(wanted) if "/" in wanted else default_directory() / wanted
    if path.is_file():
        return _disk(path)
    try:
        own_image = load_image(path)
    except InputError as error:
        cure = f"{error.cure}; or give the path of a disk image with cloud-init"
        message = f"{error.where}: {error.message}"
        raise NotFoundError(message, where=_WHERE, cure=cure) from error
    _read_head(own_image.root)
    return VolumeImage(own_image.root, "qcow2", own_image.manifest.disk_bytes, own_image)


def _disk(path: Path) -> VolumeImage:
    head, size = _read_head(path)
    if head[:4] == _QCOW2 and len(head) >= 32:
        return VolumeImage(path, "qcow2", int.from_bytes(head[24:32], "big"), None)
    if size == 0 or size % 512:
        message = f"{path} is no disk image: neither qcow2 nor whole sectors"
        raise NotFoundError(message, where=_WHERE, cure="qemu-img convert -O qcow2 FILE NEW")
    return VolumeImage(path, "raw", size, None)


def _read_head(path: Path) -> tuple[bytes, int]:
    """Return the start of a file and its size in bytes.

    Raises NotFoundError, also for a disk that would have QEMU read other files of the hypervisor.
    """
    try:
        with open_file(path) as file:
            head = file.read(_HEAD_BYTES)
        size = path.stat().st_size
    except OSError as error:
        message = f"{path}: {error.strerror}"
        raise NotFoundError(message, where=_WHERE, cure="check its permissions") from error
    other = None
    if head[:4] == _QCOW2 and any(head[8:16]):
        other = "a backing file"
    elif head[:4] == _QCOW2 and head[7:8] >= b"\x03" and int.from_bytes(head[72:80], "big") & 4:
        other = "an external data file"
    if other is not None:
        message = f"{path} is only a part of a disk: it has {other}"
        raise NotFoundError(message, where=_WHERE, cure="qemu-img convert -O qcow2 FILE NEW")
    return head, size


_OF_CLOUD_INIT = "a disk image with cloud-init"
_TOOLS = ("genisoimage", "mkisofs", "xorrisofs")
_LABEL = "cidata"
_TIMEOUT_S = 60.0


def find_iso_tool() -> str:
    """Return the program that makes the disk. Raises ProviderError."""
    found = (shutil.which(tool, path=search_path()) for tool in _TOOLS)
    return next(filter(None, found), None) or find_program(_TOOLS[0], _TOOLS[0], _OF_CLOUD_INIT)


def nocloud_disk(seed: Seed) -> bytes:
    """Return the content of the disk, an ISO 9660 image, which is partly secret.

    Root logs in with the key, at the addresses in the seed. Raises ProviderError.
    """
    tool = find_iso_tool()
    with scratch("seed") as folder:
        for name, content in _files(seed).items():
            (folder / name).write_text(content, encoding="utf-8")
        argv = [tool, "-quiet", "-volid", _LABEL, "-joliet", "-rock", str(folder)]
        done = subprocess.run(argv, capture_output=True, check=False, timeout=_TIMEOUT_S)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise ProviderError(
            f"{Path(tool).name} failed: {said}", where=_OF_CLOUD_INIT, cure="is /tmp full?"
        )
    return done.stdout


def _files(seed: Seed) -> dict[str, str]:
    user = {
        "disable_root": False,
        "ssh_authorized_keys": [seed.authorized_key],
        "ssh_deletekeys": True,
        "ssh_keys": {
            "ed25519_private": seed.host_key.private,
            "ed25519_public": seed.host_key.public,
        },
        "locale": False,  # to make one takes half a minute where the guest is emulated
    }
    cards = []
    for number, card in enumerate(seed.cards):
        subnet = {"type": "dhcp4"}
        if card.address is not None:
            subnet = {"type": "static", "address": card.address.with_prefixlen}
            if card.gateway is not None:
                subnet["gateway"] = card.gateway
        name = f"eth{number}"
        cards.append(
            {"type": "physical", "name": name, "mac_address": card.mac, "subnets": [subnet]}
        )
    return {
        "meta-data": json.dumps({"instance-id": seed.hostname, "local-hostname": seed.hostname}),
        "user-data": "#cloud-config\n" + json.dumps(user),
        "network-config": json.dumps({"version": 1, "config": cards}),
    }


_CHUNK = 1 << 18
_SYSTEM = "/var/lib/libvirt/images"
_SESSION = "~/.local/share/libvirt/images"


def directory_of(uri: str, wanted: str | None) -> str:
    """Return the parent directory of pools on a host."""
    if wanted is not None:
        return wanted
    return str(Path(_SESSION).expanduser()) if urlsplit(uri).path == "/session" else _SYSTEM


@dataclass(frozen=True)
class StoragePool:
    """A pool that is a directory of its own on a host."""

    host: Hypervisor
    name: str
    directory: str

    @classmethod
    def make(cls, host: Hypervisor, maker: Maker, directory: str) -> StoragePool:
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
                f"can't read the image: {error.strerror}",
                where=str(path),
                cure="check its permissions",
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


def remove_pool(pool: Any, notify: Callable[[], None]) -> None:
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
        notify()
        volume.delete()
    pool.destroy()
    pool.delete()
    pool.undefine()
