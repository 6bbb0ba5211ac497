from __future__ import annotations

import lzma
from pathlib import Path

from osmef.images.build import make_initrd

DEPENDENCIES = """\
kernel/virtio_ring.ko:
kernel/virtio.ko:
kernel/virtio_pci_modern_dev.ko.xz:
kernel/virtio_pci.ko.xz: kernel/virtio_pci_modern_dev.ko.xz kernel/virtio.ko kernel/virtio_ring.ko
kernel/virtio_blk.ko: kernel/virtio.ko kernel/virtio_ring.ko
kernel/virtio-rng.ko: kernel/virtio.ko kernel/virtio_ring.ko
kernel/other.ko: kernel/virtio.ko
"""


def unpacked(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of the entries of a cpio archive in the "newc" format, cpio(5)."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        body = at + 110 + name_size + -(110 + name_size) % 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[body : body + size])
        at = body + size + -size % 4


def modules(directory: Path) -> Path:
    (directory / "modules.dep").write_text(DEPENDENCIES)
    for line in DEPENDENCIES.splitlines():
        path = directory / line.partition(":")[0]
        path.parent.mkdir(exist_ok=True)
        content = path.name.encode()
        path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
    return directory


def test_it_holds_the_programs_and_the_drivers(tmp_path: Path) -> None:
    files = unpacked(make_initrd(b"busybox", b"script", modules(tmp_path)))
    assert files["init"] == (0o100755, b"script")
    assert files["bin/busybox"] == (0o100755, b"busybox")
    assert files["newroot"][0] == 0o040755
    assert "modules/other.ko" not in files
    # The kernel gets what was compressed as it was before.
    assert files["modules/virtio_pci.ko"][1] == b"virtio_pci.ko.xz"


def test_a_module_comes_behind_those_that_it_needs(tmp_path: Path) -> None:
    files = unpacked(make_initrd(b"", b"", modules(tmp_path)))
    order = files["modules/order"][1].decode().split()
    assert sorted(f"modules/{name}" for name in order) == sorted(
        name for name in files if name.endswith(".ko")
    )
    assert order.index("virtio_ring.ko") < order.index("virtio.ko") < order.index("virtio_pci.ko")
    assert order.index("virtio.ko") < order.index("virtio-rng.ko")
    assert len(order) == len(set(order))
