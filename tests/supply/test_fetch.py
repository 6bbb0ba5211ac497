"""Source code from URLs, archives and folders, and what an archive could do."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from osmef.errors import Interrupted, SupplyError
from osmef.supply import build
from osmef.supply.build import download, hash_of, lay_out

DATA = b"some source code" * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            return
        if self.path == "/gone":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(DATA)))
        self.end_headers()
        self.wfile.write(DATA[: len(DATA) // (2 if self.path == "/cut" else 1)])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def go_on() -> None:
    """Nobody stops it."""


def test_a_file_is_downloaded_from_a_url(web: str, tmp_path: Path) -> None:
    download(f"{web}/good", SHA256, tmp_path / "x", go_on)
    assert (tmp_path / "x").read_bytes() == DATA


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/moved", "only https is followed"),
        ("/gone", "Not Found"),
        ("/cut", "can't be fetched|has the SHA-256"),
    ],
)
def test_a_failed_download_is_reported(web: str, tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(SupplyError, match=message) as caught:
        download(web + path, SHA256, tmp_path / "x", go_on)
    assert caught.value.where == web + path


def test_a_wrong_hash_is_an_error(web: str, tmp_path: Path) -> None:
    with pytest.raises(SupplyError, match=f"has the SHA-256 {SHA256}, not 00"):
        download(f"{web}/good", "0" * 64, tmp_path / "x", go_on)


def test_a_file_that_is_too_large(
    web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_MOST_PACKED_BYTES", 1000)
    with pytest.raises(SupplyError, match="larger than 1 kB"):
        download(f"{web}/good", SHA256, tmp_path / "x", go_on)


def test_a_download_can_be_stopped(web: str, tmp_path: Path) -> None:
    def stop() -> None:
        raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        download(f"{web}/good", SHA256, tmp_path / "x", stop)


def entry(name: str, data: bytes = b"", link: str = "", kind: bytes = tarfile.REGTYPE) -> tuple[
    tarfile.TarInfo, bytes
]:  # fmt: skip
    info = tarfile.TarInfo(name)
    info.size, info.linkname, info.type = len(data), link, kind
    return info, data


def tarred(path: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:xz") as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, link=target, kind=kind)


def test_an_archive_is_laid_out_with_its_links(tmp_path: Path) -> None:
    script = entry("src/run", b"#!/bin/sh\n")
    script[0].mode = 0o6755
    path = tarred(
        tmp_path / "x.tar.xz",
        *(script, entry("src/a/file", b"text"), link("src/a/same", "file")),
        *(link("src/b/up", "../a/file"), link("src/hard", "src/a/file", tarfile.LNKTYPE)),
    )
    folder = lay_out(path, tmp_path / "code")
    assert folder == tmp_path / "code/src"
    for name in ("a/file", "a/same", "b/up", "hard"):
        assert (folder / name).read_bytes() == b"text", name
    assert (folder / "run").stat().st_mode & 0o7777 == 0o755
    assert (folder / "a/file").stat().st_mode & 0o7777 == 0o644


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([entry("/etc/x", b"1")], "would lie outside"),
        ([entry("../x", b"1")], "would lie outside"),
        ([entry("a/../../x", b"1")], "would lie outside"),
        ([link("a", "/etc")], "would lie outside"),
        ([link("a", "../x")], "would lie outside"),
        ([link("a/b", "../../x")], "would lie outside"),
        ([link("a", "/etc/passwd", tarfile.LNKTYPE)], "would lie outside"),
        ([link("p/q/r", "../../s"), entry("s/f"), link("p/q/r/l", "../../../z")], "behind a link"),
        ([entry("a", kind=tarfile.FIFOTYPE)], "a device or a pipe"),
        ([entry("a", kind=tarfile.CHRTYPE)], "a device or a pipe"),
        ([entry("a", kind=tarfile.BLKTYPE)], "a device or a pipe"),
        ([entry("a", b"1"), entry("a/b", b"1")], "can't be unpacked"),
    ],
)
def test_nothing_escapes_from_an_archive(
    tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]], message: str
) -> None:
    path = tarred(tmp_path / "x.tar", *entries)
    (tmp_path / "deep/er").mkdir(parents=True)
    with pytest.raises(SupplyError, match=message):
        lay_out(path, tmp_path / "deep/er/code")
    assert {p.name for p in tmp_path.iterdir()} == {"x.tar", "deep"}
    assert {p.name for p in (tmp_path / "deep").rglob("*") if p.name != "code"} <= {
        *("er", "a", "p", "q", "r", "s", "f")
    }


def test_a_file_through_a_link_stays_inside(tmp_path: Path) -> None:
    """Files come first, so that a link never stands where one is written."""
    path = tarred(tmp_path / "x.tar", link("d", "e"), entry("d", b"1"), entry("e", b"2"))
    folder = lay_out(path, tmp_path / "code")
    assert (folder / "e").read_bytes() == b"2"


def test_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("src/file", "text")
    assert (lay_out(path, tmp_path / "code") / "file").read_text() == "text"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../file", "text")
    with pytest.raises(SupplyError, match="would lie outside"):
        lay_out(path, tmp_path / "other")


def garbage(path: Path) -> None:
    path.write_bytes(b"no archive" * 100)


def short(path: Path) -> None:
    tarred(path, entry("a", os.urandom(100_000)))
    path.write_bytes(path.read_bytes()[:50_000])


@pytest.mark.parametrize("make", [garbage, short])
def test_an_invalid_archive_is_rejected(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    with pytest.raises(SupplyError, match="can't be unpacked"):
        lay_out(tmp_path / "x", tmp_path / "code")


@pytest.mark.parametrize(("name", "most"), [("_MOST_BYTES", 1000), ("_MOST_MEMBERS", 3)])
def test_an_archive_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(build, name, most)
    path = tarred(tmp_path / "x.tar", *(entry(f"f{number}", bytes(400)) for number in range(5)))
    with pytest.raises(SupplyError, match=r"unpacks to more than 1 kB|more than 3 files"):
        lay_out(path, tmp_path / "code")


def test_the_hash_of_a_folder_is_that_of_all_in_it(tmp_path: Path) -> None:
    def made(name: str, change: Callable[[Path], object]) -> str:
        folder = tmp_path / name
        (folder / "a").mkdir(parents=True)
        (folder / "a/file").write_text("text")
        (folder / "link").symlink_to("a/file")
        change(folder)
        return hash_of(folder)

    same = {made("one", lambda _: None), made("two", lambda _: None)}
    others = {
        made("3", lambda f: (f / "a/file").write_text("other")),
        made("4", lambda f: (f / "a/file").chmod(0o755)),
        made("5", lambda f: (f / "more").touch()),
        made("6", lambda f: (f / "a/file").rename(f / "a/else")),
    }
    assert len(same) == 1
    assert len(others | same) == 5


def test_a_folder_is_copied(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/file").write_text("text")
    assert (lay_out(tmp_path / "src", tmp_path / "code") / "file").read_text() == "text"
    with pytest.raises(SupplyError, match="can't be read"):
        hash_of(tmp_path / "nowhere")


def test_python_cache_files_are_not_part_of_the_source(tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "inner").mkdir(parents=True)
    (code / "inner" / "hello.py").write_bytes(b"print()\n")
    before = hash_of(code)
    for folder in (code, code / "inner"):
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "hello.pyc").write_bytes(b"of today")
    laid = lay_out(code, tmp_path / "laid")
    assert sorted(path.name for path in laid.rglob("*")) == ["hello.py", "inner"]
    assert hash_of(code) == before


def test_a_source_of_one_file(tmp_path: Path) -> None:
    file = tmp_path / "stream.c"
    file.write_text("int main(void) { return 0; }\n")
    assert (lay_out(file, tmp_path / "code") / "stream.c").read_text() == file.read_text()
