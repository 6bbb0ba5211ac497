"""Images whose files hold a few words, for tests that boot nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

FILES = {
    "root": ("root.qcow2", "qcow2"),
    "kernel": ("vmlinuz", "linux"),
    "initrd": ("initrd", "cpio"),
}


def write_image(images: Path, name: str) -> Path:
    """Write an image and return its directory."""
    directory = images / name
    directory.mkdir()
    files = {}
    for key, (file, kind) in FILES.items():
        data = f"{file} of {name}".encode()
        (directory / file).write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        files[key] = {"name": file, "format": kind, "size_bytes": len(data), "sha256": sha256}
    manifest = {
        "schema_version": 1,
        "name": name,
        "created": "2026-11-21T03:15:00Z",
        "build_s": 47.0,
        "osmef": "0.1.0",
        "architecture": "x86_64",
        "suite": "bookworm",
        "kernel": "6.1.0-56-cloud-amd64",
        "boot": {"kind": "direct-kernel", "cmdline": "console=ttyS0 quiet"},
        "seed": "tar-disk-1",
        "disk_bytes": 1 << 30,
        "files": files,
        "wanted": [],
        "packages": {"iproute2": "6.1.0-3"},
    }
    (directory / "image.json").write_text(json.dumps(manifest))
    return directory
