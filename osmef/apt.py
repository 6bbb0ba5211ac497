"""apt of this machine: its package sources, and its proxy settings."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

from osmef.errors import InputError, ProviderError
from osmef.programs import find_program

DEFAULT_SUITE = "bookworm"
_KEYRINGS = Path("/usr/share/keyrings")
_SUITE = re.compile(r"[a-z][a-z0-9.-]*")
_NETWORK_SETTING = re.compile(r"Acquire::(https?::|ftp::|Check-|Retries|Force|Proxy).*")


def find_suite(wanted: str | None) -> str:
    """Return the release of Debian: the wanted one, this machine's, or a default.

    Raises InputError for what can't be the name of one.
    """
    if wanted is not None:
        if not _SUITE.fullmatch(wanted):
            raise InputError(
                f"{wanted!r} is not the name of a release", where="--suite", cure="such as bookworm"
            )
        return wanted
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    own = release.get("VERSION_CODENAME", "")
    return own if release.get("ID") == "debian" and own else DEFAULT_SUITE


def signed_by() -> str:
    """Return the option of a source that names Debian's keyring; empty where there is none."""
    paths = (_KEYRINGS / f"debian-archive-keyring.{kind}" for kind in ("gpg", "pgp"))
    return next((f"[signed-by={path}] " for path in paths if path.exists()), "")


def sources(suite: str) -> list[str]:
    """Return the package sources of a release on this machine; empty for an unknown release.

    Options of a source, such as one that trusts it without a signature, are not taken over.
    """
    release_format = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
    lines = _ask("apt-get", "indextargets", f"--format={release_format}", "Created-By: Packages")
    signed = signed_by()
    wanted = {suite, f"{suite}-updates", f"{suite}-security", f"{suite}/updates"}
    found: dict[str, None] = {}
    for line in lines:
        origin, uri, release, component = line.split("|")
        # Before the first `apt-get update` the owner of a source is unknown.
        if origin in {"Debian", "$(ORIGIN)", ""} and release in wanted:
            found[f"deb {signed}{uri} {release} {component}"] = None
    return list(found)


def components(suite: str) -> set[str]:
    """Return which parts of a release this machine's apt gets: main, and others in its sources."""
    return {"main", *(line.split()[-1] for line in sources(suite))}


def network_settings() -> list[str]:
    """Return this machine's proxy settings and the like, as apt settings.

    They may hold passwords.
    """
    lines = _ask("apt-config", "dump", '--format=%f "%v";%n', "Acquire")
    return [line for line in lines if _NETWORK_SETTING.fullmatch(line)]


def _ask(program: str, *arguments: str) -> list[str]:
    """Return the lines that a program of apt prints; none on a machine without apt."""
    try:
        path = find_program(program, "apt", "the packages of this machine")
    except ProviderError:
        return []
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []
