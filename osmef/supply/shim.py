"""Shared library that overrides functions of the C library in a bundle.

An endpoint may lack what the library reads of the system, such as /etc/protocols of Debian's
netbase, and a plain user can't put it there. Source: ld.so(8), ``--preload``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from osmef.drafts import scratch
from osmef.errors import SupplyError
from osmef.programs import search_path
from osmef.supply.architectures import Architecture, this_architecture
from osmef.supply.tool import ToolRunner

FILE = "shim.so"
PROTOCOLS = """\
/* The protocols that programs of the network ask for, as /etc/protocols has them. */
struct protoent { char *p_name; char **p_aliases; int p_proto; };

static char *none[1];
static struct protoent known[] = {{"tcp", none, 6}, {"udp", none, 17}, {"icmp", none, 1}};

static int same(const char *one, const char *other)
{
    for (; *one && *one == *other; one++, other++)
        ;
    return *one == *other;
}

struct protoent *getprotobyname(const char *name)
{
    for (unsigned long i = 0; i < sizeof known / sizeof *known; i++)
        if (same(name, known[i].p_name))
            return &known[i];
    return 0;
}
"""
_FLAGS = ("-shared", "-fPIC", "-Os", "-nostdlib", "-fno-stack-protector", "-s")
_MOST_S = 120.0


def shim(text: str, machine: Architecture, where: str, check: Callable[[], None]) -> bytes:
    """Compile a C text without includes to a shared library. Raises SupplyError.

    What ``check`` raises ends it.
    """
    with scratch("shim") as root:
        (root / "shim.c").write_text(text, encoding="utf-8")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zig"
        environment = {
            "HOME": str(root),
            "TMPDIR": str(root),
            "PATH": search_path(),
            "LC_ALL": "C",
            "ZIG_GLOBAL_CACHE_DIR": os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(cache)),
        }
        compiler = _compiler(machine, where)
        tool = ToolRunner(where, environment, root, check, _MOST_S)
        tool.run([*compiler, *_FLAGS, "-o", FILE, "shim.c"])
        return (root / FILE).read_bytes()


def _compiler(machine: Architecture, where: str) -> tuple[str, ...]:
    gcc = shutil.which("gcc", path=search_path())
    if gcc is not None and machine == this_architecture():
        return (gcc,)
    if importlib.util.find_spec("ziglang") is None:
        raise SupplyError(
            f"it takes a small library, and this machine has no compiler for {machine.name}",
            where=where,
            cure="pip install ziglang",
        )
    return (sys.executable, "-m", "ziglang", "cc", "-target", machine.zig)
