"""Boot images of guests: an image of `osmef image build`, or a disk image with cloud-init."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from osmef.errors import InputError, NotFoundError
from osmef.images.bundle import Bundle, default_directory, load_bundle
from osmef.named_file import in_home, open_file

_QCOW2 = b"QFI\xfb"
_HEAD_BYTES = 80
"""Up to the incompatible features of version 3; the third of them is an external data file."""
_WHERE = "provider.image"


@dataclass(frozen=True)
class Image:
    """A root disk, and for an image of ours its kernel and initrd."""

    root: Path
    format: str
    disk_bytes: int
    bundle: Bundle | None

    @property
    def sent_bytes(self) -> int:
        """The size of the files to upload. Raises NotFoundError."""
        own = (self.bundle.kernel, self.bundle.initrd) if self.bundle else ()
        try:
            return sum(path.stat().st_size for path in (self.root, *own))
        except OSError as error:
            raise NotFoundError(
                f"can't read the image: {error.strerror}",
                where=str(error.filename),
                cure="check its rights",
            ) from error


def find_image(wanted: str) -> Image:
    """Return the image of this name, directory or file. Raises NotFoundError."""
    path = in_home(wanted) if "/" in wanted else default_directory() / wanted
    if path.is_file():
        return _disk(path)
    try:
        bundle = load_bundle(path)
    except InputError as error:
        cure = f"{error.cure}; or give the path of a disk image with cloud-init"
        message = f"{error.where}: {error.message}"
        raise NotFoundError(message, where=_WHERE, cure=cure) from error
    _read_head(bundle.root)
    return Image(bundle.root, "qcow2", bundle.manifest.disk_bytes, bundle)


def _disk(path: Path) -> Image:
    head, size = _read_head(path)
    if head[:4] == _QCOW2 and len(head) >= 32:
        return Image(path, "qcow2", int.from_bytes(head[24:32], "big"), None)
    if size == 0 or size % 512:
        message = f"{path} is no disk image: neither qcow2 nor whole sectors"
        raise NotFoundError(message, where=_WHERE, cure="qemu-img convert -O qcow2 FILE NEW")
    return Image(path, "raw", size, None)


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
        raise NotFoundError(message, where=_WHERE, cure="check its rights") from error
    other = None
    if head[:4] == _QCOW2 and any(head[8:16]):
        other = "a backing file"
    elif head[:4] == _QCOW2 and head[7:8] >= b"\x03" and int.from_bytes(head[72:80], "big") & 4:
        other = "an external data file"
    if other is not None:
        message = f"{path} is only a part of a disk: it has {other}"
        raise NotFoundError(message, where=_WHERE, cure="qemu-img convert -O qcow2 FILE NEW")
    return head, size
