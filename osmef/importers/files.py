"""Reading of files to import, also from a tar archive."""

from __future__ import annotations

import codecs
import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from osmef.errors import InputError
from osmef.importers.record import Text, refuse
from osmef.named_file import open_file, read_file
from osmef.results.files import storage

# Excel and PowerShell begin UTF-8 with such a mark, and > of Windows PowerShell 5 writes UTF-16.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_PLAIN = (b"", "utf-8")
_GZIP = b"\x1f\x8b"
_LARGEST = 1 << 28  # bytes of one file: more than any of these programs prints


def read_texts(files: Sequence[Path]) -> Iterator[Text | InputError]:
    """Yield each file as text, once, or its error.

    One that gzip has compressed is what is in it. A directory stands for all files below it, a
    .tar, .tar.gz, .tgz, .tar.bz2 or .tar.xz for those in it, in the order of their names. Raises
    StorageError, and InputError for a path that leads nowhere.
    """
    seen: set[Path] = set()
    for file in files:
        if not file.exists():
            raise refuse(str(file), "there is no such file", "is the path right?")
        below = (
            [path for path in sorted(file.rglob("*")) if path.is_file()]
            if file.is_dir()
            else [file]
        )
        for path in below:
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            if path.name.endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
                yield from _of_archive(path)
                continue
            with storage("read", path):
                data = read_file(path, _LARGEST)
            yield _text(data, str(path), path.parent.name)


def _of_archive(archive: Path) -> Iterator[Text | InputError]:
    try:
        with open_file(archive) as file, tarfile.open(fileobj=file) as tar:
            for member in sorted((m for m in tar if m.isfile()), key=lambda m: m.name):
                part = tar.extractfile(member) if member.size <= _LARGEST else None
                where = f"{archive}/{member.name}"
                if part is None:
                    yield refuse(where, "this is too large to be a result")
                else:
                    yield _text(part.read(), where, PurePosixPath(member.name).parent.name)
    except (tarfile.TarError, OSError, EOFError) as error:
        yield refuse(str(archive), f"this is no whole archive: {error}")


def _text(data: bytes, name: str, folder: str) -> Text | InputError:
    packed = data if data.startswith(_GZIP) else None
    if packed is not None:
        try:
            data = _unpacked(packed)
        except (OSError, EOFError, zlib.error) as error:
            return refuse(name, f"this is no whole gzip file: {error}")
        if len(data) > _LARGEST:
            return refuse(name, "this is too large to be a result")
    mark, encoding = next((one for one in _MARKS.items() if data.startswith(one[0])), _PLAIN)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, len(mark) + error.start) + 1
        return refuse(f"{name}:{line}", f"this is no text in {encoding.upper()}")
    return Text(name, text, folder or None, encoding, mark, packed)


def _unpacked(data: bytes) -> bytes:
    """Decompress a gzip file up to a limit. Raises OSError."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(_LARGEST + 1)
