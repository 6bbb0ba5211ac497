from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from osmef.files import (
    draft_directory,
    draft_file,
    locked_drafts,
    remove_stale_drafts,
    scratch,
    stale_drafts,
)
from tests.small_files import small_files

# Writes half of a file or directory, says so, and ends when it is told to.
WRITER = """
import sys
from pathlib import Path
from osmef.files import draft_directory, draft_file
where, kind = Path(sys.argv[1]), sys.argv[2]
with draft_directory(where, kind) if kind else draft_file(where / "it") as draft:
    if kind:
        (draft / "half").write_text("half")
    else:
        draft.write(b"half")
        draft.flush()
    print(flush=True)
    sys.stdin.read()
"""
# Tidies up a directory until it is told to end.
TIDIER = """
import select, sys
from pathlib import Path
from osmef.files import remove_stale_drafts
print(flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    remove_stale_drafts(Path(sys.argv[1]))
"""


@contextmanager
def program(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a program until it is ready, and give it; it ends, at the latest, with the context."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        try:
            yield process
        finally:
            process.kill()


def write(path: Path, text: str = "new", mode: int | None = None) -> None:
    with draft_file(path, mode) as file:
        file.write(text.encode())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def usual_umask() -> Iterator[None]:
    old = os.umask(0o027)
    yield
    os.umask(old)


def test_no_link_in_a_directory_of_all_leads_to_another_file(tmp_path: Path) -> None:
    here = tmp_path / "all"
    here.mkdir()
    here.chmod(0o1777)
    victim = tmp_path / "passwd"
    victim.write_text("root")
    for name in ("page.html", ".page.html.draft"):  # what we write, and what drafts were called
        (here / name).symlink_to(victim)
    write(here / "page.html")
    assert victim.read_text() == "root"
    assert not (here / "page.html").is_symlink()
    assert (here / "page.html").read_text() == "new"


@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize(
    ("old", "wanted", "mode"),
    [(None, None, 0o640), (None, 0o600, 0o600), (0o600, None, 0o600), (0o644, 0o600, 0o600)],
)
def test_a_draft_file_has_the_wanted_mode(
    tmp_path: Path, old: int | None, wanted: int | None, mode: int
) -> None:
    path = tmp_path / "it"
    if old is not None:
        path.touch()
        path.chmod(old)
    with draft_file(path, wanted) as file:
        (draft,) = (one for one in tmp_path.iterdir() if one != path)
        assert mode_of(draft) == mode
        file.write(b"new")
    assert mode_of(path) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of other users")
def test_the_mode_of_another_users_file_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.touch()
    path.chmod(0o666)
    os.chown(path, 65534, 65534)
    write(path)
    assert mode_of(path) & 0o022 == 0
    assert path.stat().st_uid == os.geteuid()


def test_nothing_but_a_file_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "directory").mkdir()
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="it is no file, but a device, pipe or socket"):
            write(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        write(tmp_path / "directory")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["directory", "link", "pipe"]
    assert (tmp_path / "link").is_symlink()


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_text("old")
    with small_files(2), pytest.raises(OSError, match="File too large"):
        write(path)
    assert [one.read_text() for one in tmp_path.iterdir()] == ["old"]


def test_a_name_may_be_as_long_as_the_disk_allows(tmp_path: Path) -> None:
    write(tmp_path / ("n" * 255))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("kind", ["", "image-debian"])
def test_drafts_left_by_a_kill_are_deleted_at_the_next_start(tmp_path: Path, kind: str) -> None:
    with program(WRITER, tmp_path, kind) as writer:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    (left,) = tmp_path.iterdir()
    assert locked_drafts(tmp_path, kind) == []
    if kind:
        with draft_directory(tmp_path, kind) as draft:
            assert list(tmp_path.iterdir()) == [draft]
        assert list(tmp_path.iterdir()) == []
        return
    assert left.read_text() == "half"
    write(tmp_path / "it")
    assert list(tmp_path.iterdir()) == [tmp_path / "it"]


@pytest.mark.parametrize("kind", ["", "image-debian"])
def test_drafts_in_use_by_another_process_are_kept(tmp_path: Path, kind: str) -> None:
    with program(WRITER, tmp_path, kind) as writer:
        (draft,) = tmp_path.iterdir()
        assert locked_drafts(tmp_path, kind) == [draft]
        if kind:
            with draft_directory(tmp_path, kind):
                assert draft.is_dir()
        else:
            write(tmp_path / "other")
            assert draft.exists()
        _, _ = writer.communicate("end")
        assert writer.returncode == 0
    assert {one.name for one in tmp_path.iterdir()} == (set() if kind else {"it", "other"})


def test_drafts_left_by_a_kill_in_subdirectories_are_deleted_too(tmp_path: Path) -> None:
    (tmp_path / "facts" / "before").mkdir(parents=True)
    with program(WRITER, tmp_path / "facts" / "before", ""):
        pass
    remove_stale_drafts(tmp_path)
    assert list((tmp_path / "facts" / "before").iterdir()) == []


def test_only_our_own_stale_drafts_are_deleted(tmp_path: Path) -> None:
    name = ".osmef-0123456789abcdef.draft"
    kept = [".page.html.draft", ".osmef-1.draft", f"x{name}", ".osmef-image-0123456789abcdef.draft"]
    for one in kept:
        (tmp_path / one).touch()
    (tmp_path / "victim").touch()
    (tmp_path / ".osmef-0000000000000001.draft").symlink_to(tmp_path / "victim")
    (tmp_path / ".osmef-0000000000000002.draft").mkdir()
    os.mkfifo(tmp_path / ".osmef-0000000000000003.draft")
    before = set(tmp_path.iterdir())
    (tmp_path / name).touch()
    if os.geteuid() == 0:
        strangers = tmp_path / ".osmef-0000000000000004.draft"
        strangers.touch()
        os.chown(strangers, 65534, 65534)
        before.add(strangers)
    remove_stale_drafts(tmp_path)
    assert set(tmp_path.iterdir()) == before


def test_concurrent_cleanup_deletes_no_finished_file(tmp_path: Path) -> None:
    with program(TIDIER, tmp_path) as one, program(TIDIER, tmp_path) as other:
        for number in range(300):
            write(tmp_path / str(number % 10))
        for tidier in (one, other):
            tidier.communicate("end")
            assert tidier.returncode == 0
    assert len(list(tmp_path.iterdir())) == 10


def test_threads_write_one_file_at_once(tmp_path: Path) -> None:
    texts = [str(number) * 5000 for number in range(8)]
    threads = [threading.Thread(target=write, args=(tmp_path / "it", text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.name for one in tmp_path.iterdir()] == ["it"]
    assert (tmp_path / "it").read_text() in texts


def test_a_scratch_directory_is_private_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with program(WRITER, tmp_path, "seed"):
        pass
    assert len(list(tmp_path.iterdir())) == 1
    with scratch("seed") as path:
        (path / "key").write_text("secret")
        assert list(tmp_path.iterdir()) == [path]
        assert mode_of(path) == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_draft_directory_renamed_to_its_final_name_is_kept(tmp_path: Path) -> None:
    with draft_directory(tmp_path, "image-x") as draft:
        draft.rename(tmp_path / "x")
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]
    assert list(stale_drafts(tmp_path, "image-x")) == []
