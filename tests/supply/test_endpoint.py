"""Programs on an endpoint of a real sshd: found there, or pushed and run by their own loader."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from osmef.errors import EndpointError, SupplyError
from osmef.remote.session import SshSession
from osmef.supply.bundle import BundleStore, unpack
from osmef.supply.closure import cut
from osmef.supply.debian import find, install_commands
from osmef.supply.program import Program, this_architecture
from osmef.supply.supply import Supplied, Supplier, supply
from tests.sshd import OPTIONS, Sshd
from tests.supply.made import archive, packed, tree_of

SEQ = Program("seq", how=("bundle",))
HERE = this_architecture().name


@contextmanager
def endpoint(directory: Path, options: str) -> Iterator[SshSession]:
    server = Sshd(directory, options=options)
    session = SshSession.open(server.login())
    try:
        yield session
    finally:
        session.close()
        server.close()


@pytest.fixture
def bundled(tmp_path: Path) -> Program:
    """A program of this machine in a bundle."""
    path = tmp_path / "seq.tar.gz"
    path.write_bytes(packed(SEQ, tmp_path / "tree"))
    return Program("seq", bundle=path, how=("bundle",))


@pytest.fixture
def supplier(tmp_path: Path) -> Supplier:
    return Supplier(BundleStore(tmp_path / "programs"))


def script(folder: Path, text: str) -> str:
    path = folder / "osmef-bench"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path.name


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[tuple[SshSession, Path]]:
    """An endpoint that finds programs in a folder of ours, too."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (tmp_path / "sshd").mkdir()
    path = f"{folder}:/usr/bin:/bin"
    with endpoint(tmp_path / "sshd", f"{OPTIONS}\nSetEnv PATH={path}") as it:
        yield it, folder


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("echo bench 4.2", "bench 4.2"),
        ("echo; echo usage >&2; echo '  bench 4.2 of 2020  '", "bench 4.2 of 2020"),
        ('[ "$1" = -V ] && echo version 1.0', "version 1.0"),
        ("echo no idea; exit 1", None),
        ("yes bench", None),
        ("kill -9 $$", None),
        ("printf '\\377\\376 7.1\\n'", "�� 7.1"),
    ],
)
def test_the_version_of_an_installed_program_is_found(
    shown: tuple[SshSession, Path], text: str, version: str | None
) -> None:
    session, folder = shown
    found = find(Program(script(folder, text)), session)
    assert (found.path, found.version) == (f"{folder}/osmef-bench", version)


def test_a_program_that_hangs_is_not_waited_for_long(shown: tuple[SshSession, Path]) -> None:
    session, folder = shown
    name = script(folder, "exec sleep 600")
    found = find(Program(name, version=("version",)), session)
    assert found.version is None
    assert session.run(["true"]).status == 0


def test_a_missing_or_unusable_program_is_reported(shown: tuple[SshSession, Path]) -> None:
    session, folder = shown
    with pytest.raises(SupplyError, match="the endpoint does not have it"):
        find(Program("osmef-bench"), session)
    name = script(folder, "echo 1.0")
    (folder / name).chmod(0o644)
    with pytest.raises(SupplyError, match="the endpoint does not have it"):
        find(Program(name), session)
    script(folder, "echo 1.0")
    with pytest.raises(SupplyError, match="has it, but no /usr/share/no/file"):
        find(Program(name, files=("/usr/share/no/file",)), session)
    (folder / name).write_text("#!/no/such/interpreter\n")
    with pytest.raises(SupplyError, match="has it, and can't run it"):
        find(Program(name), session)


def test_a_program_in_sbin_is_found(session: SshSession) -> None:
    if not Path("/usr/sbin/sshd").exists():
        pytest.skip("no sshd in /usr/sbin here")
    found = find(Program("sshd"), session)
    assert found.path == "/usr/sbin/sshd"
    assert found.version is not None
    assert "OpenSSH" in found.version


def test_the_facts_of_one_that_is_there(session: SshSession, supplier: Supplier) -> None:
    there = supply(Program("tar", files=("/etc/passwd",)), session, HERE, ".run", supplier)
    assert there.how == "present"
    assert there.argv == (there.facts["path"],)
    assert "tar" in str(there.facts["version"])
    assert there.data == {"/etc/passwd": "/etc/passwd"}
    assert (there.files, there.push(session)) == ({}, 0)


def supplied(program: Program, session: SshSession, directory: Path) -> Supplied:
    return supply(program, session, HERE, str(directory), Supplier(BundleStore(directory / "kept")))


# What a program finds that is not its own: nothing.
HIDE = """
for folder in /lib /lib64 /lib32 /etc /opt /usr; do
  [ ! -d "$folder" ] || [ -L "$folder" ] || mount -t tmpfs tmpfs "$folder" || exit 9
done
exec "$@"
"""


def test_a_bundle_runs_with_nothing_of_the_endpoint(
    session: SshSession, tmp_path: Path, bundled: Program
) -> None:
    here = supplied(bundled, session, tmp_path / "run")
    assert here.how == "bundle"
    sent = here.push(session)
    assert sent == sum(file.size_bytes for file in here.files.values()) > 0
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    hidden = ["env", "-i", "unshare", *user, "--mount", "/bin/sh", "-c", HIDE, "sh"]
    done = session.run([*hidden, *here.argv, "3"])
    if b"unshare failed" in done.stderr or done.status == 9:
        pytest.skip("this user may not make namespaces")
    assert (done.status, done.stdout) == (0, b"1\n2\n3\n"), done.stderr


def test_provided_programs_are_private_to_the_login_and_deleted_with_the_run(
    session: SshSession, tmp_path: Path, bundled: Program
) -> None:
    run = tmp_path / "run"
    here = supplied(bundled, session, run)
    here.push(session)
    (folder,) = [path for path in run.iterdir() if path.name.startswith("seq-")]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    loader = Path(here.argv[0]).name
    assert {modes["seq"], modes[loader]} == {0o700}
    assert set(modes.values()) == {0o700, 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(run.stat().st_mode) == 0o700
    assert here.push(session) == 0, "what is there is not sent again"
    (folder / "seq").write_bytes(b"cut")
    assert here.push(session) == here.files["seq"].size_bytes
    session.remove_directory(str(run))
    assert not run.exists()


def test_a_path_from_the_home_becomes_one_from_the_root(
    session: SshSession, bundled: Program, supplier: Supplier
) -> None:
    here = supply(bundled, session, HERE, ".osmef-run-vm-1", supplier)
    home = session.run(["pwd"]).stdout.decode().strip()
    assert here.argv[-1].startswith(f"{home}/.osmef-run-vm-1/seq-")
    assert here.location is not None
    assert here.location.folder.startswith(".osmef-run-vm-1/seq-")


def test_data_lies_beside_the_program(session: SshSession, tmp_path: Path) -> None:
    tree = tree_of(tmp_path / "tree", "cat")
    path = tmp_path / "cat.tar.gz"
    closure = cut(Program("cat"), tree, this_architecture())
    path.write_bytes(archive(Program("cat"), closure, {"load.txt": b"load"}))
    program = Program("cat", files=("/usr/share/load.txt",), bundle=path, how=("bundle",))
    here = supplied(program, session, tmp_path / "run")
    here.push(session)
    done = session.run([*here.argv, here.data["/usr/share/load.txt"]])
    assert done.stdout == b"load"


@pytest.mark.parametrize(
    "damage",
    [
        'truncate -s 1000 "$file"',
        'printf x | dd of="$file" bs=1 seek=500 conv=notrunc 2>/dev/null',
        'rm -f "$file"',
        'echo more >>"$file"',
    ],
)
@pytest.mark.parametrize("tools", ["/usr/bin:/bin", "/nowhere"])
def test_a_file_truncated_or_changed_in_transfer_is_named(
    tmp_path: Path, bundled: Program, damage: str, tools: str
) -> None:
    server = shutil.which("sftp-server", path="/usr/lib/openssh:/usr/libexec/openssh:/usr/lib/ssh")
    if server is None:
        pytest.skip("no sftp-server here")
    wrapper = tmp_path / "sftp"
    victims = f"{tmp_path}/run/seq-*/libc.so.6"
    body = f'PATH=/usr/bin:/bin; for file in {victims}; do [ ! -f "$file" ] || {damage}; done'
    wrapper.write_text(f"#!/bin/sh\n{server}\n{body}\n")
    wrapper.chmod(0o755)
    (tmp_path / "sshd").mkdir()
    options = f"Subsystem sftp {wrapper}\nSetEnv PATH={tools}"
    with endpoint(tmp_path / "sshd", options) as session:
        here = supplied(bundled, session, tmp_path / "run")
        with pytest.raises(EndpointError, match=r"seq-\w+/libc\.so\.6 is not the file") as caught:
            here.push(session)
        assert caught.value.where == "vm-1"
        assert caught.value.cure


OVERWRITE = "printf x | dd of={file} bs=1 seek=500 conv=notrunc"
COUNTED = 'echo read >>{reads}; exec /usr/bin/sha256sum "$@"'


@pytest.fixture
def reads(shown: tuple[SshSession, Path]) -> Path:
    """A file that gets a line each time the endpoint reads what was brought."""
    _, folder = shown
    script(folder, COUNTED.format(reads=folder / "reads"))
    (folder / "osmef-bench").rename(folder / "sha256sum")
    (folder / "reads").touch()
    return folder / "reads"


@pytest.mark.parametrize(
    "change",
    [
        OVERWRITE,
        f"touch -r {{file}} {{file}}.old; {OVERWRITE}; touch -r {{file}}.old {{file}}",
        "rm {file}",
    ],
)
def test_files_are_read_again_only_where_something_was_done_to_them(
    shown: tuple[SshSession, Path], tmp_path: Path, bundled: Program, reads: Path, change: str
) -> None:
    session, _ = shown
    here = supplied(bundled, session, tmp_path / "run")
    here.push(session)
    state = here.verify(session)
    before = reads.read_text()
    assert here.verify(session, state) == state is not None
    assert reads.read_text() == before
    (file,) = (tmp_path / "run").glob("seq-*/seq")
    done = session.run(["sh", "-c", change.format(file=file)])
    assert done.status == 0, done.stderr
    with pytest.raises(EndpointError, match="/seq is not the file that was sent"):
        here.verify(session, state)


@pytest.mark.parametrize(
    "told",
    ["exit 127", "for one; do echo $one 7 1 2026-11-24 11:00:00.000000000 +0000; done"],
    ids=["no stat", "by the second"],
)
def test_without_usable_file_times_the_files_are_read_each_time(
    shown: tuple[SshSession, Path], tmp_path: Path, bundled: Program, reads: Path, told: str
) -> None:
    session, folder = shown
    script(folder, told)
    (folder / "osmef-bench").rename(folder / "stat")
    here = supplied(bundled, session, tmp_path / "run")
    here.push(session)
    state = here.verify(session)
    assert state is None
    before = reads.read_text()
    here.verify(session, state)
    assert reads.read_text() == before + "read\n"


def test_an_endpoint_without_sha256sum(tmp_path: Path, bundled: Program) -> None:
    (tmp_path / "sshd").mkdir()
    options = "Subsystem sftp internal-sftp\nSetEnv PATH=/nowhere"
    with endpoint(tmp_path / "sshd", options) as session:
        here = supplied(bundled, session, tmp_path / "run")
        assert here.push(session) > 0
        assert here.push(session) == 0
        assert session.run([*here.argv, "2"]).stdout == b"1\n2\n"


def test_a_folder_that_a_loader_can_t_take(
    session: SshSession, tmp_path: Path, bundled: Program
) -> None:
    with pytest.raises(SupplyError, match="takes no folder with a :"):
        supplied(bundled, session, tmp_path / "a:b")


def test_all_failed_ways_to_provide_a_program_are_reported(
    session: SshSession, bundled: Program, supplier: Supplier
) -> None:
    missing = Program("osmef-nothing", how=("present", "bundle"), bundle=bundled.bundle)
    with pytest.raises(SupplyError) as caught:
        supply(missing, session, HERE, ".run", supplier)
    assert caught.value.where == "vm-1"
    for told in (
        "can't be supplied",
        "present: the endpoint does not have it",
        "bundle: it holds seq",
    ):
        assert told in caught.value.message
    wrong = Program("seq", files=("/no/file",), bundle=bundled.bundle, how=("present", "bundle"))
    with pytest.raises(SupplyError, match=r"has it, but no /no/file; bundle: it holds no"):
        supply(wrong, session, HERE, ".run", supplier)


def test_failed_ways_before_the_successful_one_are_recorded(
    session: SshSession, bundled: Program, supplier: Supplier
) -> None:
    assert bundled.bundle is not None
    both = Program("seq", bundle=bundled.bundle, how=("bundle", "present"))
    (bundled.bundle).write_bytes(b"garbage")
    found = supply(both, session, HERE, ".run", supplier)
    assert found.how == "present"
    assert "bundle: this bundle is damaged" in str(found.facts["tried"])


@pytest.mark.parametrize(
    ("manager", "last"),
    [
        ("apt-get", "env DEBIAN_FRONTEND=noninteractive apt-get install --yes"),
        ("dnf", "dnf install --assumeyes"),
        ("apk", "apk add --no-cache"),
        ("zypper", "zypper --non-interactive install"),
    ],
)
def test_the_install_commands_of_each_package_manager(manager: str, last: str) -> None:
    program = Program("ab", package="apache2-utils", packages=("libapr1",))
    commands = install_commands(manager, program, root=True)
    assert " ".join(commands[-1]).startswith(last)
    assert commands[-1][-3:] == ["--", "apache2-utils", "libapr1"]
    for command in install_commands(manager, program, root=False):
        assert command[:2] == ["sudo", "-n"]


def test_it_is_installed_only_where_that_is_allowed(
    shown: tuple[SshSession, Path], supplier: Supplier
) -> None:
    """The package manager is a script: what it installs would stay on this machine."""
    session, folder = shown
    if os.geteuid() != 0:
        pytest.skip("only root installs without sudo")
    log = folder / "log"
    text = f'echo "$*" >>{log}; printf "#!/bin/sh\\necho bench 1.2\\n" >{folder}/osmef-b;'
    (folder / "apt-get").write_text(f"#!/bin/sh\n{text} chmod 755 {folder}/osmef-b\n")
    (folder / "apt-get").chmod(0o755)
    program = Program("osmef-b", bundle=folder / "none")
    with pytest.raises(SupplyError):
        supply(program, session, HERE, ".run", supplier)
    assert not log.exists()
    allowed = replace(program, how=("present", "install"))
    found = supply(allowed, session, HERE, ".run", supplier)
    assert (found.how, found.facts["version"]) == ("install", "bench 1.2")
    update, install = log.read_text().splitlines()
    assert update == "update"
    assert install.endswith(" -- osmef-b")
    assert str(found.facts["installed_by"]).count("osmef-b") == 1


def test_the_error_of_a_failed_package_manager_is_shown(
    shown: tuple[SshSession, Path], supplier: Supplier
) -> None:
    session, folder = shown
    if os.geteuid() != 0:
        pytest.skip("only root installs without sudo")
    (folder / "apt-get").write_text("#!/bin/sh\necho E: it is locked >&2\nexit 100\n")
    (folder / "apt-get").chmod(0o755)
    program = Program("osmef-b", how=("install",))
    with pytest.raises(SupplyError, match=r"apt-get failed \(exit status 100\): E: it is locked"):
        supply(program, session, HERE, ".run", supplier)


def test_a_bundle_is_the_same_on_its_way(tmp_path: Path) -> None:
    first, second = (packed(SEQ, tmp_path / name) for name in ("a", "b"))
    assert first == second
    assert unpack(first).manifest.program == "seq"
