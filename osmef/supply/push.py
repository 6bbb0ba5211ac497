"""Put a bundle on an endpoint: into a folder of its own in the directory of the run."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from osmef.errors import EndpointError, SupplyError
from osmef.supply.bundle import HERE, Bundle, BundledFile

if TYPE_CHECKING:  # paramiko takes long to import, and `osmef plan` connects to nothing
    from osmef.remote.session import Session

_DIGITS = 12
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.*)")
_RUNS = {"program", "loader"}


@dataclass(frozen=True)
class Place:
    """Where a bundle lies on an endpoint."""

    directory: str
    """The directory of the run, from the login's home."""
    folder: str
    """That of the bundle in it, from the login's home."""
    absolute: str
    """The same from the root."""


def place_of(bundle: Bundle, session: Session, directory: str) -> Place:
    """Return where a bundle is to lie. Raises SupplyError, ReachError."""
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
    return Place(directory, folder, absolute)


def words(bundle: Bundle, place: Place) -> tuple[str, ...]:
    """Return what starts a bundled program that lies in its place."""
    return tuple(word.replace(HERE, place.absolute) for word in bundle.manifest.argv)


def push(bundle: Bundle, session: Session, place: Place) -> int:
    """Put the files of a bundle there that are not there yet; return how many bytes were sent.

    Only the login can read them; all are gone with the run's directory. Afterwards all have been
    verified. Raises EndpointError that names a file that has been cut or changed, ReachError.
    """
    wrong = _wrong(bundle, session, place)
    if not wrong:
        return 0
    session.make_directory(place.directory)
    session.make_directory(place.folder)
    for name, file in wrong.items():
        mode = 0o700 if file.kind in _RUNS else 0o600
        session.put(bundle.contents[name], f"{place.folder}/{name}", mode)
    verify(bundle, session, place)
    return sum(file.size_bytes for file in wrong.values())


def verify(bundle: Bundle, session: Session, place: Place) -> None:
    """Compare the hashes of all files there. Raises EndpointError that names a wrong one."""
    wrong = _wrong(bundle, session, place)
    if wrong:
        name = next(iter(wrong))
        raise EndpointError(
            f"{place.folder}/{name} is not the file that was sent: it is missing, cut or changed",
            where=session.name,
            cure="is the endpoint's disk full or failing? does anything else change files there?",
        )


def _wrong(bundle: Bundle, session: Session, place: Place) -> dict[str, BundledFile]:
    """Return the files that are not there as they should be."""
    found = _hashes(bundle, session, place)
    return {name: file for name, file in bundle.pushed.items() if found.get(name) != file.sha256}


def _hashes(bundle: Bundle, session: Session, place: Place) -> dict[str, str]:
    """Return the hashes of the files there, by name: of sha256sum, or else of what is read back."""
    paths = [f"{place.folder}/{name}" for name in bundle.pushed]
    said = session.run(["sha256sum", "--", *paths]).stdout.decode(errors="replace")
    matches = map(_LINE.fullmatch, said.splitlines())
    found = {match[2].rpartition("/")[2]: match[1] for match in matches if match}
    return found or _read_back(bundle, session, place)  # there may be no such program


def _read_back(bundle: Bundle, session: Session, place: Place) -> dict[str, str]:
    there = set(session.list_directory(place.folder))
    return {
        name: hashlib.sha256(
            session.read(f"{place.folder}/{name}", file.size_bytes + 1)
        ).hexdigest()
        for name, file in bundle.pushed.items()
        if name in there
    }
