"""Bundles of Debian's own packages: made of the registry, and run where there is nothing else."""

from __future__ import annotations

import json
import os
import platform
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from osmef.errors import Interrupted, SupplyError
from osmef.remote.session import SshSession
from osmef.supply.bundle import BundleStore, ProgramBundle, pack, unpack
from osmef.supply.closure import parse
from osmef.supply.debian import BundleRequest, bundle_of_packages
from osmef.supply.program import Program, find_architecture, this_architecture
from osmef.supply.supply import Supplied, Supplier, make, plan, supply
from tests.waiting import until

pytestmark = [
    pytest.mark.real("programs"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt-get here"),
]
LOAD = "/usr/share/dbench/client.txt"
DBENCH = Program("dbench", files=(LOAD,), how=("bundle",))
IPERF3 = Program("iperf3", how=("bundle",))
NOBODY = 65534


@pytest.fixture(scope="module")
def supplier(tmp_path_factory: pytest.TempPathFactory) -> Supplier:
    return Supplier(BundleStore(tmp_path_factory.mktemp("programs"), print), suite="bookworm")


@contextmanager
def registry() -> Iterator[None]:
    """Skip where the registry is between two states: a rarely used part of a mirror often is."""
    try:
        yield
    except SupplyError as error:
        if "Mirror sync in progress" in error.message:
            pytest.skip("the package registry is being brought up to date: try again later")
        raise


@pytest.fixture
def run_directory(session: SshSession) -> Iterator[str]:
    """A directory of a run that any user may reach."""
    path = f"{tempfile.gettempdir()}/.osmef-test-{secrets.token_hex(8)}"
    yield path
    session.remove_directory(path)


def as_a_plain_user(session: SshSession, here: Supplied) -> list[str]:
    """Start the program with an empty environment as a user who is not root."""
    words = ["env", "-i", *here.argv]
    if os.geteuid() != 0:
        return words
    assert here.location is not None
    session.run(["chown", "-R", f"{NOBODY}:{NOBODY}", here.location.directory])
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return [*drop, "--no-new-privs", *words]


def pushed(program: Program, session: SshSession, directory: str, supplier: Supplier) -> Supplied:
    here = supply(program, session, this_architecture().name, directory, supplier)
    here.push(session)
    return here


def test_dbench_runs_as_a_plain_user_and_is_small(
    session: SshSession, run_directory: str, supplier: Supplier
) -> None:
    here = pushed(DBENCH, session, run_directory, supplier)
    assert here.bundle is not None
    assert here.bundle.packed_bytes < 5_000_000
    user = as_a_plain_user(session, here)
    load = here.data[LOAD]
    done = session.run([*user, "-c", load, "-t", "1", "-D", run_directory, "1"])
    assert done.status == 0, done.stdout + done.stderr
    assert b"Throughput" in done.stdout
    session.run(["rm", "-rf", f"{run_directory}/clients"])


def test_iperf3_measures_over_the_loopback(
    session: SshSession, run_directory: str, supplier: Supplier
) -> None:
    here = pushed(IPERF3, session, run_directory, supplier)
    user = as_a_plain_user(session, here)
    assert b"iperf 3." in session.run([*user, "--version"]).stdout
    server = session.start([*user, "-s", "-1", "-p", "20499", "--forceflush"])
    while (line := server.read_line()) is not None and "listening on" not in line:
        pass
    done = session.run([*user, "-c", "127.0.0.1", "-p", "20499", "-t", "1", "-J"])
    assert done.status == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] > 0
    server.close()


def test_a_bundle_loads_nothing_of_the_endpoint(
    session: SshSession, run_directory: str, supplier: Supplier
) -> None:
    here = pushed(IPERF3, session, run_directory, supplier)
    assert here.location is not None
    loader, folder, path = here.argv[0], here.location.absolute, here.argv[-1]
    listed = session.run([loader, "--inhibit-cache", "--library-path", folder, "--list", path])
    places = [
        line.split(" => ")[1].split()[0]
        for line in listed.stdout.decode().splitlines()
        if " => " in line
    ]
    assert places
    assert all(location.startswith(f"{folder}/") for location in places)


@pytest.mark.parametrize(
    ("program", "architecture"),
    [(DBENCH, "aarch64"), (IPERF3, "armv7l"), (DBENCH, "ppc64le"), (DBENCH, "s390x")],
    ids=["aarch64", "armv7l", "ppc64le", "s390x"],
)
def test_bundles_for_other_machines(
    supplier: Supplier, program: Program, architecture: str, tmp_path: Path
) -> None:
    machine = find_architecture(architecture)
    with registry():
        made = make("bundle", program, machine, supplier)
    kinds = {"program", "loader", "library"}
    for name, file in made.manifest.files.items():
        if file.kind in kinds:
            assert parse(made.contents[name]).machine == machine.elf, name
    assert run_emulated(made, tmp_path) in {None, 0, 1}


def run_emulated(made: ProgramBundle, folder: Path) -> int | None:
    """Run it, by QEMU where it is for another machine; None without QEMU."""
    names = {"armv7l": "arm"}
    architecture = made.manifest.architecture
    qemu = shutil.which(f"qemu-{names.get(architecture, architecture)}-static")
    if qemu is None:
        return None
    for name in made.pushed:
        (folder / name).write_bytes(made.contents[name])
        (folder / name).chmod(0o700)
    argv = [word.replace("{dir}", str(folder)) for word in made.manifest.argv]
    done = subprocess.run([qemu, *argv, "--help"], capture_output=True, text=True, check=False)
    assert "usage" in (done.stdout + done.stderr).lower(), done
    return done.returncode


def test_an_architecture_that_a_debian_release_lacks_is_rejected(supplier: Supplier) -> None:
    with pytest.raises(SupplyError, match="Debian bookworm is not made for riscv64") as caught:
        make("bundle", DBENCH, find_architecture("riscv64"), supplier)
    assert "--suite trixie" in str(caught.value.cure)


def test_another_release_for_a_machine_that_is_newer() -> None:
    order = BundleRequest(Program("iperf3"), find_architecture("riscv64"), "trixie")
    with registry():
        made = unpack(bundle_of_packages(order, print, lambda: None))
    assert made.manifest.argv[0] == "{dir}/ld-linux-riscv64-lp64d.so.1"


def test_the_same_packages_give_the_same_bytes(supplier: Supplier) -> None:
    machine = this_architecture()
    first = make("bundle", DBENCH, machine, supplier)
    again = make("bundle", DBENCH, machine, supplier, again=True)
    assert first.sha256 == again.sha256
    assert pack(first.manifest, first.contents) == pack(again.manifest, again.contents)
    assert plan(DBENCH, platform.machine(), supplier).endswith("(made already)")


def test_the_manifest_lists_the_contents_of_the_bundle(supplier: Supplier) -> None:
    manifest = make("bundle", DBENCH, this_architecture(), supplier).manifest
    assert {"dbench", "libc6", "libpopt0"} <= set(manifest.packages)
    assert manifest.libc == f"glibc {manifest.packages['libc6'].version}"
    assert all(package.licence in manifest.files for package in manifest.packages.values())
    assert manifest.data == {LOAD: "client.txt"}
    assert {file.kind for file in manifest.files.values()} == {
        *("program", "loader", "library", "data", "licence")
    }


@pytest.mark.parametrize(
    ("program", "suite", "message"),
    [
        (Program("osmef-nothing"), "bookworm", "Unable to locate package osmef-nothing"),
        (Program("osmef", package="dbench"), "bookworm", "no program of this name"),
        (Program("ldd", package="libc-bin"), "bookworm", "a script for /bin/bash"),
        (Program("dbench", files=("/usr/share/no",)), "bookworm", "is in none of its packages"),
        (Program("dbench"), "osmef-no-such", "apt-get failed"),
    ],
)
def test_a_bundle_that_cannot_be_made_is_reported(
    program: Program, suite: str, message: str
) -> None:
    with pytest.raises(SupplyError, match=message) as caught:
        bundle_of_packages(BundleRequest(program, this_architecture(), suite), print, lambda: None)
    assert caught.value.cure


def test_an_unsigned_package_repository_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osmef.supply.debian.signed_by", lambda: "[signed-by=/dev/null] ")
    monkeypatch.setattr("osmef.supply.debian.sources", lambda _suite: [])
    monkeypatch.setattr(
        "osmef.supply.debian.network_settings",
        lambda: ['Acquire::AllowInsecureRepositories "true";'],
    )
    with pytest.raises(SupplyError, match=r"not signed|NO_PUBKEY|couldn't be verified"):
        bundle_of_packages(
            BundleRequest(DBENCH, this_architecture(), "bookworm"), print, lambda: None
        )


def test_a_stopped_one_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    began: list[str] = []

    def check() -> None:
        if any(line.startswith("fetching dbench") for line in began):
            raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        bundle_of_packages(
            BundleRequest(DBENCH, this_architecture(), "bookworm"), began.append, check
        )
    until(lambda: not list(tmp_path.iterdir()))
