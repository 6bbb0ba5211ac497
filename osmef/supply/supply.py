"""Supply of a program on an endpoint: found, bundled, built, or installed.

A bundle is put into a folder of its own in the directory of the run, and each file verified there.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from pydantic import JsonValue

from osmef.apt import components, find_suite
from osmef.errors import EndpointError, SupplyError
from osmef.supply.build import bundle_of_source, source_hash
from osmef.supply.bundle import (
    HERE,
    BundledFile,
    BundleKey,
    BundleStore,
    ProgramBundle,
    default_directory,
    read_bundle,
)
from osmef.supply.compiler import compiler_of
from osmef.supply.debian import (
    BundleRequest,
    Present,
    bundle_of_packages,
    fetch_problem,
    find,
    install,
)
from osmef.supply.program import (
    NAMES,
    Architecture,
    Program,
    SourceCode,
    Way,
    find_architecture,
    this_architecture,
)
from osmef.units import format_size

if TYPE_CHECKING:  # paramiko takes long to import, and `osmef plan` connects to nothing
    from osmef.remote.session import SshSession

_DIGITS = 12
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.*)")
_RUNS = {"program", "loader"}
_STATE = "%n %s %i %z"  # name, size, inode, and when anything of it changed
_FINER_THAN_SECONDS = re.compile(r":[0-9]{2}\.[0-9]*[1-9]")


@dataclass(frozen=True)
class BundleLocation:
    """Location of a bundle on an endpoint."""

    directory: str
    """The directory of the run, from the login's home."""
    folder: str
    """That of the bundle in it, from the login's home."""
    absolute: str
    """The same from the root."""


def place_of(bundle: ProgramBundle, session: SshSession, directory: str) -> BundleLocation:
    """Return the location for a bundle. Raises SupplyError, ReachError."""
    name = f"{bundle.manifest.program}-{bundle.sha256[:_DIGITS]}"
    folder = f"{directory}/{name}"
    if folder.startswith("/"):
        home = ""
    else:
        lines = session.run(["pwd"]).stdout.decode(errors="replace").splitlines()
        home = f"{lines[-1]}/" if lines and lines[-1].startswith("/") else "./"
    absolute = f"{home}{folder}"
    if re.search(r"[:;$]", absolute):
        raise SupplyError(
            f"its loader takes no folder with a : ; or $ in its name: {absolute}",
            where=session.name,
            cure="log in as a user with another home",
        )
    return BundleLocation(directory, folder, absolute)


def command_line(bundle: ProgramBundle, location: BundleLocation) -> tuple[str, ...]:
    """Return the command line of a bundled program at its location."""
    return tuple(word.replace(HERE, location.absolute) for word in bundle.manifest.argv)


def push(bundle: ProgramBundle, session: SshSession, location: BundleLocation) -> int:
    """Upload the missing files of a bundle; return the number of bytes.

    Only the login can read them; all are gone with the run's directory. Afterwards all have been
    verified. Raises EndpointError that names a file that has been cut or changed, ReachError.
    """
    wrong = _wrong(bundle, session, location)
    if not wrong:
        return 0
    session.make_directory(location.directory)
    session.make_directory(location.folder)
    for name, file in wrong.items():
        mode = 0o700 if file.kind in _RUNS else 0o600
        session.put(bundle.contents[name], f"{location.folder}/{name}", mode)
    verify(bundle, session, location)
    return sum(file.size_bytes for file in wrong.values())


def verify(bundle: ProgramBundle, session: SshSession, location: BundleLocation) -> None:
    """Verify the hashes of all files there. Raises EndpointError that names a wrong one."""
    wrong = _wrong(bundle, session, location)
    if wrong:
        name = next(iter(wrong))
        raise EndpointError(
            f"{location.folder}/{name} is not the file that was sent: it is missing, cut or"
            " changed",
            where=session.name,
            cure="is the endpoint's disk full or failing? does anything else change files there?",
        )


def _state_of_files(
    bundle: ProgramBundle, session: SshSession, location: BundleLocation
) -> str | None:
    """Return a state that changes with any change of these files; None where it is unknown.

    No program can set the time at which a file changed back, but some report it by the second.
    """
    paths = [f"{location.folder}/{name}" for name in bundle.pushed]
    done = session.run(["stat", "-c", _STATE, "--", *paths])
    state = done.stdout.decode(errors="replace")
    return state if done.status == 0 and _FINER_THAN_SECONDS.search(state) else None


def _wrong(
    bundle: ProgramBundle, session: SshSession, location: BundleLocation
) -> dict[str, BundledFile]:
    """Return the files that are missing or modified."""
    found = _hashes(bundle, session, location)
    return {name: file for name, file in bundle.pushed.items() if found.get(name) != file.sha256}


def _hashes(bundle: ProgramBundle, session: SshSession, location: BundleLocation) -> dict[str, str]:
    """Return the hashes of files there, by sha256sum, or else by reading them back."""
    paths = [f"{location.folder}/{name}" for name in bundle.pushed]
    said = session.run(["sha256sum", "--", *paths]).stdout.decode(errors="replace")
    matches = map(_LINE.fullmatch, said.splitlines())
    found = {match[2].rpartition("/")[2]: match[1] for match in matches if match}
    return found or _read_back(bundle, session, location)  # there may be no such program


def _read_back(
    bundle: ProgramBundle, session: SshSession, location: BundleLocation
) -> dict[str, str]:
    there = set(session.list_directory(location.folder))
    return {
        name: hashlib.sha256(
            session.read(f"{location.folder}/{name}", file.size_bytes + 1)
        ).hexdigest()
        for name, file in bundle.pushed.items()
        if name in there
    }


_FORMAT = 1
"""Of bundles: those of another one are made again."""
_MADE: tuple[Way, ...] = ("bundle", "build")


def default_store() -> BundleStore:
    """Return this user's store."""
    return BundleStore(default_directory())


@dataclass(frozen=True)
class Supplier:
    """Ways of supply in a run.

    ``suite`` is the release of Debian, by default this machine's own.
    """

    store: BundleStore = field(default_factory=default_store)
    suite: str | None = None


@dataclass(frozen=True)
class Supplied:
    """A program on an endpoint, once its files are uploaded."""

    program: str
    how: Way
    argv: tuple[str, ...]
    """What starts it; its arguments go behind."""
    data: Mapping[str, str]
    """Paths on the endpoint of its data files and further products, by their declared paths."""
    facts: Mapping[str, JsonValue]
    """Facts about the program that results record."""
    bundle: ProgramBundle | None = None
    location: BundleLocation | None = None

    @property
    def files(self) -> dict[str, BundledFile]:
        """The files to upload, by name."""
        return {} if self.bundle is None else self.bundle.pushed

    def push(self, session: SshSession) -> int:
        """Upload and verify its files; return the number of bytes.

        Existing files are not sent again. Raises EndpointError, ReachError.
        """
        if self.bundle is None or self.location is None:
            return 0
        return push(self.bundle, session, self.location)

    def verify(self, session: SshSession, known: str | None = None) -> str | None:
        """Check that its files are unchanged, and return their state.

        If their state is still the ``known`` one, large files are not read again. Raises
        EndpointError that names a wrong file, ReachError.
        """
        if self.bundle is None or self.location is None:
            return None
        state = _state_of_files(self.bundle, session, self.location)
        if state is None or state != known:
            verify(self.bundle, session, self.location)
        return state


def supply(
    program: Program,
    session: SshSession,
    architecture: str,
    directory: str,
    supplier: Supplier | None = None,
) -> Supplied:
    """Choose how an endpoint gets a program, and make its bundle.

    ``architecture`` is what ``uname -m`` says there, ``directory`` that of the run, from the
    login's home. Raises SupplyError that says why each way has failed, ReachError, StorageError.
    """
    supplier = supplier or Supplier()
    target = _Target(session, architecture, directory)
    failed: list[tuple[Way, SupplyError]] = []
    for way in program.ways:
        try:
            found = _by(way, program, target, supplier)
        except SupplyError as error:
            failed.append((way, error))
            continue
        tried: list[JsonValue] = [f"{one}: {error.message}" for one, error in failed]
        return replace(found, facts={**found.facts, "tried": tried}) if tried else found
    raise _nowhere(program, session.name, failed)


def check(program: Program, supplier: Supplier | None = None) -> None:
    """Check before provisioning that a program can be supplied to some architecture.

    Conditions on the endpoint are not checked. Raises SupplyError with the reason for each way, for
    this machine's architecture if it is known.
    """
    supplier = supplier or Supplier()
    failed: list[tuple[Way, SupplyError]] = []
    for way in program.ways:
        if way not in _MADE:
            return
        reasons = []
        for name in sorted(NAMES, key=lambda name: name != platform.machine()):
            try:
                _state(way, program, name, supplier)
            except SupplyError as error:
                reasons.append(error)
            else:
                return
        failed.append((way, reasons[0]))
    raise _nowhere(program, f"program {program.name!r}", failed)


def _here() -> str:
    """Return the name of this machine's kind; none where programs are not supplied for it."""
    try:
        return this_architecture().name
    except SupplyError:
        return ""


def build_from_source(
    program: Program, source: SourceCode, machine: Architecture, supplier: Supplier
) -> ProgramBundle:  # fmt: skip
    """Build a program from a user's source code, and store it for later runs.

    ``source`` has the program's own steps and products. Raises SupplyError, StorageError.
    """
    wanted = _wanted_of_source(program, machine)
    store, built = supplier.store, replace(program, source=source)
    making = partial(bundle_of_source, built, machine, store.progress, store.check)
    return store.obtain(wanted, making, again=True)


def plan(program: Program, architecture: str | None, supplier: Supplier | None = None) -> str:
    """Describe how an endpoint would get a program, without connecting or making anything."""
    supplier = supplier or Supplier()
    ways = program.ways
    descriptions = [_planned(way, program, architecture, supplier) for way in ways]
    return f"{program.name}: {', else '.join(descriptions) or 'no way to have it'}"


def make(
    way: Way, program: Program, machine: Architecture, supplier: Supplier, *, again: bool = False
) -> ProgramBundle:
    """Return the bundle of a program for an architecture, from the store or newly made.

    Raises SupplyError, StorageError.
    """
    if way == "bundle" and program.bundle is not None:
        return _obtained(program, machine)
    wanted, making = _recipe(way, program, machine, supplier)
    return supplier.store.obtain(wanted, making, again=again)


@dataclass(frozen=True)
class _Target:
    """The endpoint of a supply."""

    session: SshSession
    architecture: str
    directory: str


def _by(way: Way, program: Program, target: _Target, supplier: Supplier) -> Supplied:
    match way:
        case "present":
            return _there(way, program, find(program, target.session), {})
        case "install":
            found, commands = install(program, target.session)
            ran: list[JsonValue] = [" ".join(argv) for argv in commands]
            return _there(way, program, found, {"installed_by": ran})
        case "bundle" | "build":
            bundle = make(way, program, find_architecture(target.architecture), supplier)
            return _pushed(way, bundle, place_of(bundle, target.session, target.directory))
        case _:
            assert_never(way)


def _there(
    way: Way, program: Program, found: Present, more: Mapping[str, JsonValue]
) -> Supplied:  # fmt: skip
    facts: dict[str, JsonValue] = {"how": way, "path": found.path, "version": found.version}
    data = {path: path for path in program.files}
    return Supplied(program.name, way, (found.path,), data, {**facts, **more})


def _pushed(way: Way, bundle: ProgramBundle, location: BundleLocation) -> Supplied:
    manifest = bundle.manifest
    packages: dict[str, JsonValue] = {
        name: package.version for name, package in manifest.packages.items()
    }
    build = manifest.build.model_dump(mode="json") if manifest.build else None
    facts: dict[str, JsonValue] = {
        "how": way,
        "sha256": bundle.sha256,
        "libc": manifest.libc,
        **({"packages": packages} if packages else {}),
        **({"build": build} if build else {}),
        **({"notes": list(manifest.notes)} if manifest.notes else {}),
    }
    data = {path: f"{location.absolute}/{name}" for path, name in manifest.data.items()}
    return Supplied(
        manifest.program, way, command_line(bundle, location), data, facts, bundle, location
    )


def _obtained(program: Program, machine: Architecture) -> ProgramBundle:
    """Return a user's bundle. Raises SupplyError where it is of another program."""
    assert program.bundle is not None  # noqa: S101 - the caller has checked
    bundle = read_bundle(program.bundle)
    manifest, where = bundle.manifest, str(program.bundle)
    if manifest.program != program.name:
        raise SupplyError(
            f"it holds {manifest.program}, not {program.name}",
            where=where,
            cure=f"name the file of {program.name} under bundles",
        )
    if manifest.architecture != machine.name:
        raise SupplyError(
            f"it is for {manifest.architecture}, and this is needed for {machine.name}",
            where=where,
            cure=f"osmef program bundle {program.name} --arch {machine.name} -o FILE",
        )
    missing = [path for path in program.files if path not in manifest.data]
    if missing:
        raise SupplyError(
            f"it holds no {missing[0]}",
            where=where,
            cure=f"osmef program bundle {program.name} --file {missing[0]} -o FILE",
        )
    return bundle


def _recipe(
    way: Way, program: Program, machine: Architecture, supplier: Supplier
) -> tuple[BundleKey, Callable[[], bytes]]:
    """Return key and builder of a bundle. Raises SupplyError."""
    store = supplier.store
    if way == "build":
        wanted = _wanted_of_source(program, machine)
        if not program.is_sourced and not store.has(wanted):
            raise _source_missing(program, machine)
        return wanted, partial(bundle_of_source, program, machine, store.progress, store.check)
    order = BundleRequest(program, machine, find_suite(supplier.suite))
    alternatives: list[JsonValue] = [list(pair) for pair in program.alternatives]
    packaged: JsonValue = {
        "packages": [program.debian_package, *program.packages],
        "files": list(program.files),
        "libraries": list(program.libraries),
        "suite": order.suite,
        "format": _FORMAT,
        **({"alternatives": alternatives} if alternatives else {}),
        **({"shim": program.shim} if program.shim else {}),
    }
    wanted = BundleKey(program.name, machine.name, packaged)
    if program.component not in components(order.suite) and not store.has(wanted):
        part = program.component
        raise SupplyError(
            f"its package {program.debian_package} is in Debian's {part}, and this machine's apt"
            " has no source of that",
            where=f"bundle of {program.name!r}",
            cure=f"add {part} to the sources of apt, and run apt-get update",
        )
    return wanted, lambda: bundle_of_packages(order, store.progress, store.check)


def _source_missing(program: Program, machine: Architecture) -> SupplyError:
    """Return the error of a missing source that users provide, with where to get it."""
    origin = program.source.origin if program.source is not None else ""
    first = f"get its source from {origin}, then: " if origin else ""
    return SupplyError(
        "its source is not on this controller",
        where=f"build of {program.name!r}",
        cure=f"{first}osmef program build {program.name} --source PATH --arch {machine.name}",
    )


def _wanted_of_source(program: Program, machine: Architecture) -> BundleKey:
    """Return the key of a build; of a user's source, that of the recipe alone."""
    source = program.source
    assert source is not None  # noqa: S101 - it is no way without a source
    steps: list[JsonValue] = [list(step) for step in source.steps]
    recipe: list[JsonValue] = [steps, list(source.products)]
    if source.adds:
        recipe.append(dict(source.adds))
    if source.language != "c":
        recipe.append(source.language)
    if not program.is_sourced:
        return BundleKey(program.name, machine.name, {"brought": recipe, "format": _FORMAT})
    compiler = compiler_of(source, machine, f"build of {program.name!r}")
    built: JsonValue = {
        "build": [source_hash(source), *recipe],
        "compiler": [compiler.name, compiler.openmp],
        "format": _FORMAT,
    }
    return BundleKey(program.name, machine.name, built)


def _planned(
    way: Way, program: Program, architecture: str | None, supplier: Supplier
) -> str:  # fmt: skip
    match way:
        case "present":
            return "the endpoint's own"
        case "install":
            packages = ", ".join((program.debian_package, *program.packages))
            return f"installed there by its package manager ({packages})"
        case "bundle" | "build":
            return _planned_making(way, program, architecture, supplier)
        case _:
            assert_never(way)


def _planned_making(
    way: Way, program: Program, architecture: str | None, supplier: Supplier
) -> str:
    if way == "bundle" and program.bundle is not None:
        what = f"the bundle {program.bundle}"
    elif way == "bundle":
        suite = find_suite(supplier.suite)
        what = f"a bundle of Debian {suite}'s package {program.debian_package}"
    else:
        source = program.source
        known = source and (source.url or source.path)
        what = f"built from {known}" if known else "built from source that you bring"
    try:
        return what + _state(way, program, architecture, supplier)
    except SupplyError as error:
        return f"{what} (which fails: {error.message})"


def _state(way: Way, program: Program, architecture: str | None, supplier: Supplier) -> str:
    """Describe whether a bundle is stored. Raises SupplyError where it can't be made."""
    machine = find_architecture(architecture or _here() or NAMES[0])
    if architecture is None:
        if way == "bundle" and program.bundle is None:
            _recipe(way, program, machine, supplier)
        return ""
    if way == "bundle" and program.bundle is not None:
        return f" ({format_size(_obtained(program, machine).packed_bytes)})"
    wanted, _ = _recipe(way, program, machine, supplier)
    if supplier.store.has(wanted):
        return f" for {machine.name} (made already)"
    why = fetch_problem() if way == "bundle" else None
    if why is not None:
        raise SupplyError(why)
    return f" for {machine.name}"


def _nowhere(
    program: Program, where: str, failed: Sequence[tuple[Way, SupplyError]]
) -> SupplyError:
    why = "; ".join(f"{way}: {error.message}" for way, error in failed)
    cures = [error.cure for _, error in failed if error.cure]
    return SupplyError(
        f"the program {program.name!r} can't be supplied: {why or 'no allowed way applies to it'}",
        where=where,
        cure=cures[-1] if cures else f"install {program.debian_package} on the endpoint",
        program=program.name,
    )
