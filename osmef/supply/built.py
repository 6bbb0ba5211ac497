"""Build a program from source on the controller, as a static one for the endpoint's machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from osmef.drafts import scratch
from osmef.errors import SupplyError
from osmef.programs import search_path
from osmef.supply.bundle import HERE, Build, BundledFile, Kind, ProgramManifest, described, pack
from osmef.supply.closure import libraries_of, words_of
from osmef.supply.compiler import Compiler, compiler_of
from osmef.supply.elf import is_elf, parse, read_elf
from osmef.supply.fetch import download, hash_of, lay_out
from osmef.supply.machines import Machine, this_machine
from osmef.supply.program import Program, Source
from osmef.supply.tool import Tool
from osmef.supply.tree import Found

_MOST_S = 900.0
_MOST_PRODUCT_BYTES = 256 << 20
_TRY_S = 10.0
_ASK_S = 30.0


def source_hash(source: Source) -> str:
    """Return the SHA-256 of source code, which tells one version of it from another.

    Of a URL it is the one that is wanted; nothing is fetched. Raises SupplyError.
    """
    return hash_of(source.path) if source.path is not None else str(source.sha256)


def bundle_of_source(
    program: Program, machine: Machine, tell: Callable[[str], None], check: Callable[[], None]
) -> bytes:
    """Return the archive of a bundle that holds a program built from its source.

    ``tell`` is given a line as each step begins; what ``check`` raises ends it. Raises
    SupplyError, with the end of what the compiler said; nothing of it stays then.
    """
    source, where = program.source, f"build of {program.name!r}"
    assert source is not None  # noqa: S101 - it is no way without a source
    compiler = compiler_of(source, machine, where)
    with scratch("build") as root:
        code, digest = _code(source, root, tell, check)
        offline = without_network()
        environment = _environment(root, compiler)
        tool = Tool(where, environment, code, check, _MOST_S, prefix=offline)
        tell(f"building {program.name} for {machine.name} with {compiler.name}")
        _run(source, tool, machine)
        contents = _products(source, code, program.name, where)
        build = Build(
            source=source.url or str(source.path),
            sha256=digest,
            compiler=compiler.name,
            openmp=compiler.openmp,
            network=not offline,
        )
        if source.shared:
            return packed_with_libraries(program, code / source.products[0], contents, build)
        return _packed(program, machine, contents, build, compiler.notes)


def _run(source: Source, tool: Tool, machine: Machine) -> None:
    """Run all steps. Raises SupplyError."""
    try:
        for step in source.steps:
            tool.run([word.replace("{target}", machine.zig) for word in step])
    except SupplyError as error:
        if source.shared:
            error.cure = f"read what it said; this machine needs: {', '.join(source.shared)}"
        raise


def without_network() -> tuple[str, ...]:
    """Return what starts a command that reaches no network, and dies whole; nothing if none can.

    It is unshare(1), which a user may run where the kernel allows user namespaces.
    """
    path = shutil.which("unshare", path=search_path())
    if path is None:
        return ()
    user = () if os.geteuid() == 0 else ("--user", "--map-current-user")
    prefix = (path, *user, "--net", "--pid", "--fork", "--kill-child=KILL")
    try:
        done = subprocess.run([*prefix, "true"], capture_output=True, check=False, timeout=_TRY_S)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return prefix if done.returncode == 0 else ()


def _code(
    source: Source, root: Path, tell: Callable[[str], None], check: Callable[[], None]
) -> tuple[Path, str]:
    """Return the folder of the source code and its hash. Raises SupplyError."""
    path = source.path
    if source.url is not None:
        path = root / "archive"
        tell(f"fetching {source.url}")
        download(source.url, str(source.sha256), path, check)
    assert path is not None  # noqa: S101 - it has the one or the other
    digest = hash_of(path)
    if source.sha256 not in {None, digest}:
        raise SupplyError(f"it has the SHA-256 {digest}, not {source.sha256}", where=str(path))
    code = lay_out(path, root / "code")
    for name, text in source.adds:
        (code / name).write_text(text, encoding="utf-8")
    return code, digest


def _environment(root: Path, compiler: Compiler) -> dict[str, str]:
    """Return the environment of the steps: nothing of the user's, who has credentials there."""
    home = root / "home"
    home.mkdir()
    # zig keeps its C library there once it has compiled it, which takes a while; Go likewise.
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return {
        "HOME": str(home),
        "TMPDIR": str(home),
        "LC_ALL": "C",
        "SOURCE_DATE_EPOCH": "0",
        "ZIG_GLOBAL_CACHE_DIR": os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(Path(cache) / "zig")),
        "GOCACHE": os.environ.get("GOCACHE", str(Path(cache) / "go-build")),
        **compiler.install(root / "tools"),
    }


def _products(source: Source, code: Path, name: str, where: str) -> dict[str, bytes]:
    """Return what the steps have made, by the names in the bundle; the program first."""
    found: dict[str, bytes] = {}
    for number, product in enumerate(source.products):
        path = code / product
        if not path.is_file() or not path.resolve().is_relative_to(code.resolve()):
            raise SupplyError(
                f"its steps made no {product}",
                where=where,
                cure="products are files in the folder of the source: look at its steps",
            )
        if path.stat().st_size > _MOST_PRODUCT_BYTES:
            raise SupplyError(f"{product} is larger than 256 MiB", where=where)
        key = path.name if number or source.is_interpreted else name
        if key in found:
            raise SupplyError(f"two of its products have the name {key}", where=where)
        found[key] = path.read_bytes()
    return found


def _packed(
    program: Program,
    machine: Machine,
    contents: dict[str, bytes],
    build: Build,
    notes: tuple[str, ...],
) -> bytes:
    source = program.source
    assert source is not None  # noqa: S101 - it was built of it
    first = next(iter(contents))

    def kind(name: str) -> Kind:
        return "program" if name == first or is_elf(contents[name]) else "data"

    for name, data in contents.items():
        if kind(name) == "program" and not source.is_interpreted:
            _check_static(data, machine, f"build of {program.name!r}")
    files: dict[str, BundledFile] = {
        name: described(data, kind(name)) for name, data in contents.items()
    }
    named = source.products if source.is_interpreted else source.products[1:]
    manifest = ProgramManifest(
        schema_version=1,
        program=program.name,
        how="build",
        architecture=machine.name,
        libc="none" if source.is_interpreted else "static",
        suite=None,
        argv=(f"{HERE}/{first}",),
        data={path: Path(path).name for path in named},
        packages={},
        build=build,
        notes=notes,
        files=files,
    )
    return pack(manifest, contents)


def _check_static(data: bytes, machine: Machine, where: str) -> None:
    """Raise SupplyError unless this is a static program for that machine."""
    elf = parse(data)
    if elf.machine != machine.elf:
        raise SupplyError(f"what was built is not for {machine.name}", where=where)
    if elf.interpreter is not None or elf.needed:
        raise SupplyError(
            "what was built is no static program",
            where=where,
            cure="have its steps compile with cc from PATH, or $CC, which is given -static",
        )


class _ThisMachine:
    """The files of this machine."""

    def find(self, path: str) -> Found | None:
        place = Path(path)
        return Found(place.resolve(), "") if place.is_file() else None


def packed_with_libraries(
    program: Program, path: Path, contents: dict[str, bytes], build: Build
) -> bytes:
    """Return the archive of a program at a path, with its loader and libraries.

    ``contents`` are what was built, the program among them. Raises SupplyError.
    """
    elf, machine = read_elf(path), this_machine()
    libraries = libraries_of(str(path), elf, _ThisMachine(), machine)
    loader = elf.interpreter and Path(elf.interpreter).name

    def kind(name: str) -> Kind:
        if name in libraries:
            return "loader" if name == loader else "library"
        return "program" if name == program.name else "data"

    every = contents | {name: found.path.read_bytes() for name, found in libraries.items()}
    files: dict[str, BundledFile] = {
        name: described(data, kind(name)) for name, data in every.items()
    }
    packages = packages_of([found.path for found in libraries.values()])
    manifest = ProgramManifest(
        schema_version=1,
        program=program.name,
        how="build",
        architecture=machine.name,
        libc=_libc() if loader else "static",
        suite=None,
        argv=words_of(program.name, loader, every),
        data={name: name for name in contents if name != program.name},
        packages={},
        build=build.model_copy(update={"libraries": packages}),
        notes=(),
        files=files,
    )
    return pack(manifest, every)


def packages_of(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the packages of files with their versions; the files where no dpkg knows them."""
    names = tuple(sorted(file.name for file in files))
    # dpkg may know a file of /usr by the path that it had before the two were merged.
    paths = [path for file in files for path in (str(file), str(file).removeprefix("/usr"))]
    owners = _said("dpkg-query", "--search", *dict.fromkeys(paths)).splitlines()
    packages = sorted({line.partition(": ")[0] for line in owners})
    shown = "--showformat=${Package} ${Version}\n"
    told = _said("dpkg-query", "--show", shown, *packages).splitlines() if packages else []
    return tuple(sorted(set(told))) or names


def _said(name: str, *arguments: str) -> str:
    """Return what a tool prints, nothing where there is none."""
    path = shutil.which(name, path=search_path())
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, check=False, timeout=_ASK_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _libc() -> str:
    return os.confstr("CS_GNU_LIBC_VERSION") or "glibc"
