"""Programs that fail, in whole runs: what the user is told, and what stays on the endpoints."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from osmef.results.trial import Status
from osmef.scenario.fields import DATA_PORTS
from osmef.supply.program import Program, this_architecture
from osmef.supply.supply import Supplier, default_store, make
from tests.cli.conftest import Osmef
from tests.cli.machines import Lab
from tests.processes import commands
from tests.supply import elf_files
from tests.supply.made import of_script
from tests.waiting import until

LeftBehind = Callable[[], list[str]]

MARK = str(10_000_000 + os.getpid())
"""How long everything here sleeps that has to be killed, so that it can be found."""
FOREIGN = elf_files.program(machine=62 if platform.machine() == "aarch64" else 183)
"""A program for aarch64, or on such a machine for x86_64 (elf.h)."""
RATE = {"rate": {"pattern": r"rate (\S+)"}}
PATH = {"rate": {"json": "end.rate"}}
ODD = (
    *("a b", "'", '"', "\\", "line one\nline two\n", "\t", "", "$(id)", "`id`", "$HOME", "*", "~"),
    *(
        ";",
        "&",
        "|",
        ">x",
        "-n",
        "--",
        "-",
        "é",
        "\U0001d11e",
        "{{peer}}",
        "{}",
        "{ x }",
        "#",
        "%s",
    ),
)
# Every port that a server may be told, so that none is left.
TAKES_ALL = f"""
import socket, time
kept = [socket.create_server(("", port)) for port in range({DATA_PORTS.start}, {DATA_PORTS.stop})]
print("taken", flush=True)
time.sleep({MARK})
"""
FAMILY = f"sleep {MARK} & (setsid sh -c 'sleep {MARK} & exec sleep {MARK}' &); echo rate 7"
LOOK = f"""
n=0
for one in /proc/[0-9]*/cmdline; do
  tr '\\0' ' ' <"$one" 2>/dev/null | grep -q '^sleep {MARK}' && n=$((n + 1))
done
echo rate $n
"""


def sh(script: str, on: str = "sender", **keys: object) -> dict[str, object]:
    return {"on": on, "argv": ["sh", "-c", script], **keys}


def argv(*words: str, on: str = "sender", **keys: object) -> dict[str, object]:
    return {"on": on, "argv": [*words], **keys}


def server(script: str, **keys: object) -> dict[str, object]:
    return sh(script, on="receiver", **keys)


@dataclass(frozen=True)
class Case:
    """Programs of one trial, and what is told of them: nothing where they are in order."""

    run: Sequence[Mapping[str, object]]
    said: Sequence[str] = ()
    cure: str = ""
    where: str = "sender"
    kind: str = "program"
    metrics: Mapping[str, object] = field(default_factory=dict)
    rate: float | None = None

    @property
    def workload(self) -> dict[str, object]:
        usual = {"kind": "program", "duration": "200ms", "deadline": "2s", "most_output": "1MB"}
        return {**usual, "run": [*self.run], "metrics": {**self.metrics}}


def number(script: str, said: str, cure: str, metrics: Mapping[str, object] = RATE) -> Case:
    """A program that ends well, and does not tell its number."""
    said = f"sh printed no rate: {said}"
    return Case([sh(script)], [said], cure, kind="output", metrics=metrics)


CASES = {
    "missing": Case(
        [argv("no-such-program", "-x")],
        ["can't run no-such-program: No such file or directory; it is in no folder of PATH"],
        "name it in needs",
    ),
    "missing server": Case(
        [argv("./no-such-program", on="receiver", ready="port"), argv("true")],
        ["can't run ./no-such-program: No such file or directory; it is missing"],
        "name it in needs",
        where="receiver",
    ),
    "foreign": Case(
        [argv("FOLDER/foreign")],
        ["/foreign: Exec format error; it is no program for this kind of machine"],
        "brings one for this kind of machine",
    ),
    "orphan": Case(
        [argv("FOLDER/orphan")],
        ["/orphan: No such file or directory", "the loader or interpreter that it asks for"],
        "name it in needs",
    ),
    "not to be run": Case(
        [argv("FOLDER/data")],
        ["/data: Permission denied; look at its permissions"],
        "name it in needs",
    ),
    "status": Case(
        [sh("echo out; echo a reason >&2; exit 3")],
        ["sh ended with exit status 3; it printed: a reason"],
        "exits names the statuses that are no failure",
    ),
    "status and silence": Case(
        [sh("exit 4")], ["exit status 4; it printed: nothing"], "all of which is in raw/"
    ),
    "crash": Case(
        [sh("echo half; kill -SEGV $$")],
        ["sh was killed by SIGSEGV; it printed: half"],
        "kernel log",
    ),
    "killed": Case([sh("kill -KILL $$")], ["sh was killed by SIGKILL"], "too much memory"),
    "hangs": Case(
        [sh(f"echo step 3 of 5; exec sleep {MARK}")],
        ["sh: the program still ran after 2 s; the end of what it printed: step 3 of 5"],
        "raise the workload's deadline",
    ),
    "hangs with a family": Case(
        [sh(f"trap '' TERM HUP INT; {FAMILY}; sleep {MARK}")],
        ["still ran after 2 s", "rate 7"],
        "raise the workload's deadline",
    ),
    "leaves a family": Case([sh(FAMILY)], metrics=RATE, rate=7),
    "100 MB": Case(
        [argv("head", "-c", "100000000", "/dev/zero")],
        ["head: the program printed more than 1000000 bytes", "nothing that can be shown"],
        "raise most_output",
    ),
    "nothing": number("true", r"nothing on its stdout matches rate (\S+)", "fix the pattern"),
    "other stream": number(
        "echo rate 7 >&2", "nothing on its stdout matches", "write stream: stderr"
    ),
    "nothing for JSON": number("true", "there is no complete JSON", "have it print JSON", PATH),
    "half a JSON": number(
        """printf '{"end": {"rate": 1'""", "there is no complete JSON", "have it print JSON", PATH
    ),
    "another JSON": number(
        """printf '{"end": {"rat": 1}}'""",
        *("the JSON on its stdout has no end.rate", "fix the path", PATH),
    ),
    "no number": number(
        """printf '{"end": {"rate": "fast"}}'""", "'fast' is no number", "the number alone", PATH
    ),
    "garbage": number(
        "head -c 3000 /dev/urandom | tr -d 0-9",
        r"nothing on its stdout matches",
        "fix the pattern",
    ),
    "only NUL": number("head -c 3000 /dev/zero", "nothing on its stdout", "optional: true"),
    "not UTF-8 and no number": number(
        r"printf 'rate \377\376 MB/s\n'", "'��' is no number", "the group of the pattern"
    ),
    "not UTF-8": Case([sh(r"printf 'a \377\376 rate 7\n'")], metrics=RATE, rate=7),
    "never ready": Case(
        [server(f"echo at 5201; exec sleep {MARK}", ready="port", serves=True), argv("true")],
        ["sh: the program did not listen on port 2", " within 15 s", "printed: at 5201"],
        "let it listen on {port}, at {bind}",
        where="receiver",
    ),
    "not ready": Case(
        [server("echo address in use >&2; exit 1", ready="port"), argv("true")],
        ["sh: the program ended with status 1 before it was ready", "printed: address in use"],
        "look at what it printed",
        where="receiver",
    ),
    "crash of a server": Case(
        [server("echo up; kill -ABRT $$", ready={"line": "up"}, serves=True), sh("sleep 1")],
        ["sh was killed by SIGABRT; it printed: up"],
        "kernel log",
        where="receiver",
    ),
    "server that never ends": Case(
        [server(f"exec sleep {MARK}", ready="start"), argv("true")],
        ["sh: the program still ran after 2 s"],
        "write serves: true",
        where="receiver",
    ),
    "client beside a server that never ends": Case(
        [server(f"exec sleep {MARK}", ready="start"), sh("echo refused >&2; exit 1")],
        ["sh ended with exit status 1; it printed: refused"],
        "look at what it printed",
    ),
    "no port": Case(
        [
            argv(
                sys.executable, "-c", TAKES_ALL, on="receiver", ready={"line": "taken"}, serves=True
            ),
            server("exit", ready="port"),
            argv("true"),
        ],
        ["bind: another program has port 2"],
        "end what holds those of 20000 to 20999 there",
        where="receiver",
        kind="agent",
    ),
    "odd words": Case([argv("printf", "%s\\0", *ODD)]),
    # Last: what all those before have left.
    "look": Case([sh(LOOK, on="both")], metrics=RATE, rate=0),
}


def one_line(text: str) -> str:
    return " ".join(text.split())


def sleepers() -> list[int]:
    """Return what still sleeps of all that was started here."""
    return [pid for pid, words in commands().items() if words[:2] == [b"sleep", MARK.encode()]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files that can't be run."""
    (tmp_path / "foreign").write_bytes(FOREIGN)
    (tmp_path / "orphan").write_text("#!/no/such/interpreter\n")
    (tmp_path / "data").write_text("#!/bin/sh\n")
    for name in ("foreign", "orphan"):
        (tmp_path / name).chmod(0o755)
    return tmp_path


def text_of(workloads: Sequence[Mapping[str, object]], **keys: object) -> str:
    """A scenario with a trial for each, one after the other."""
    sweep = {"sweep": {"workload": workloads}} if len(workloads) > 1 else {}
    one = {"repeat": 1, "order": "sequential", "workload": workloads[0], **sweep}
    return json.dumps({"name": "faults", **one, **keys}, ensure_ascii=False)


def test_every_fault_fails_its_own_trial_with_where_what_and_cure(
    osmef: Osmef, folder: Path, left_behind: LeftBehind
) -> None:
    osmef.end_s = 240.0
    text = text_of([case.workload for case in CASES.values()]).replace("FOLDER", str(folder))
    ended = osmef("run", osmef.write(text))
    assert ended.code == 1, ended.err
    assert "Traceback" not in ended.err
    told = osmef.trials
    assert len(told) == len(CASES)
    for (name, case), trial in zip(CASES.items(), told, strict=True):
        failure = trial["failure"]
        if not case.said:
            assert trial["status"] == Status.OK, (name, failure)
            assert trial["metrics"].get("rate") == case.rate, name
            continue
        assert trial["status"] == Status.FAILED, name
        assert trial["metrics"] == {}, name
        assert failure["kind"] == case.kind, (name, failure)
        assert failure["where"].startswith(case.where), (name, failure)
        for said in case.said:
            assert said in failure["message"], (name, failure)
            assert one_line(said) in one_line(ended.err), name
        assert case.cure in failure["cure"], (name, failure)
        assert len(failure["message"]) < 1000, name
    failed = [case for case in CASES.values() if case.said]
    summary = osmef.summary
    assert sum(cell["n_failed"] for cell in summary["cells"]) == len(failed)
    assert left_behind() == []

    (odd,) = [index for index, name in enumerate(CASES, 1) if name == "odd words"]
    written = (osmef.run / "raw" / f"{odd}-0-sender-h1-t1.stdout").read_bytes()
    words = [word.replace("{{peer}}", "{peer}") for word in ODD]
    assert written.decode().split("\0")[:-1] == words
    (kept,) = (osmef.run / "raw").glob(f"{list(CASES).index('100 MB') + 1}-*")
    assert kept.stat().st_size == 1_000_000


# --- bundles ----------------------------------------------------------------------------------

# It tells a rate, and then does to its own file what it is told.
BENCH = """
echo rate 7
case $1 in
  change) echo 'echo rate 9' >"$0" ;;
  cut) : >"$0"; exit 3 ;;
  remove) rm "$0" ;;
esac
exit 0
"""


def bench(*words: str) -> dict[str, object]:
    """A workload of a program that is brought."""
    run = [argv("osmef-bench", word) for word in words]
    usual = {"kind": "program", "duration": "200ms", "needs": ["osmef-bench"]}
    return {**usual, "run": run, "metrics": RATE}


def test_a_bundle_changed_on_the_endpoint_fails_its_trial_and_is_sent_again(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    (osmef.directory / "bench.tar.gz").write_bytes(of_script("osmef-bench", BENCH))
    words = ("1", "change", "2", "cut", "3", "remove", "4")
    brought = {"bundles": {"osmef-bench": f"{osmef.directory}/bench.tar.gz"}}
    workloads = [{**bench(word), **brought} for word in words]
    ended = osmef("run", osmef.write(text_of(workloads)))
    assert ended.code == 1, ended.err
    told = dict(zip(words, osmef.trials, strict=True))
    assert [trial["metrics"].get("rate") for trial in told.values()] == [7, None] * 3 + [7]
    for word in ("change", "cut", "remove"):
        failure = told[word]["failure"]
        assert (failure["kind"], failure["where"]) == ("endpoint", "sender-h1-t1")
        assert "/osmef-bench is not the file that was sent" in failure["message"]
        assert "does anything else change files there?" in failure["cure"]
    assert told["cut"]["failure"]["message"].endswith("; osmef-bench ended with exit status 3")
    assert left_behind() == []


def test_a_truncated_bundle_is_reported_before_anything_is_created(osmef: Osmef) -> None:
    path = osmef.directory / "bench.tar.gz"
    path.write_bytes(of_script("osmef-bench", BENCH)[:-9])
    workload = {**bench("1"), "bundles": {"osmef-bench": str(path)}}
    ended = osmef("run", osmef.write(text_of([workload])))
    assert ended.code == 2, ended.err
    assert "scenario.yaml:1:" in ended.err
    assert "this bundle is damaged, or none: it is cut off" in ended.err
    assert "make it again: osmef program bundle" in ended.err
    assert not (osmef.directory / "results").exists()


@pytest.fixture
def kept(osmef: Osmef, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle in the store of a user, whose apt is a program that fails."""
    folder = osmef.directory / "bin"
    folder.mkdir()
    fake_apt(folder, "echo 'E: Could not connect to nowhere'; exit 100")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(osmef.directory / "cache"))
    packed = of_script("osmef-bench", BENCH)
    monkeypatch.setattr("osmef.supply.supply.bundle_of_packages", lambda *_: packed)
    store = default_store()
    make("bundle", Program("osmef-bench"), this_architecture(), Supplier(store))
    (path,) = store.directory.glob("*.tar.gz")
    return path


def fake_apt(folder: Path, does: str) -> None:
    """Make an apt-get that knows of no sources."""
    for name, text in (("apt-get", f'[ "$1" = indextargets ] && exit 1\n{does}'), ("dpkg-deb", "")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)


def test_a_bundle_that_changes_on_the_controller_is_not_used(
    osmef: Osmef, kept: Path, left_behind: LeftBehind
) -> None:
    name = osmef.write(text_of([bench("1")]))
    ended = osmef("run", name)
    assert ended.code == 0, ended.err
    assert osmef.trials[0]["metrics"]["rate"] == 7
    before = {path.name for path in (osmef.directory / "results").iterdir()}
    kept.write_bytes(kept.read_bytes()[:-9])
    ended = osmef("run", name)
    assert ended.code == 3, ended.err
    for said in (
        f"note: {kept.name}: it is damaged: it is not what was written; it is made again",
        "the program 'osmef-bench' can't be supplied: present: the endpoint does not have it;",
        "E: Could not connect to nowhere",
        "is the package repository reachable?",
    ):
        assert said in ended.err
    (run,) = [p for p in (osmef.directory / "results").iterdir() if p.name not in before]
    assert not (run / "trials.jsonl").exists()
    assert left_behind() == []


def test_ctrl_c_while_a_bundle_is_made_ends_that_at_once(
    osmef: Osmef, kept: Path, left_behind: LeftBehind
) -> None:
    kept.unlink()
    fake_apt(osmef.directory / "bin", f"exec sleep {MARK}")
    process = osmef.start("run", osmef.write(text_of([bench("1")])))
    osmef.until(process, "fetching the index of Debian")
    until(lambda: bool(sleepers()))
    osmef.interrupt(process, signal.SIGINT)
    ended = osmef.finish(process)
    assert ended.code == 4, ended.err
    assert "stopped by SIGINT" in ended.err
    assert (sleepers(), left_behind()) == ([], [])


# --- connections ------------------------------------------------------------------------------

HOSTS = {"a": {"ssh": "node-a", "interface": "data0"}, "b": {"ssh": "node-b", "interface": "data0"}}
ENDS = {
    "provider": {"kind": "static", "hosts": HOSTS},
    "endpoints": {"sender": {"kind": "host"}, "receiver": {"kind": "host"}},
}
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")
# Between sshd and its file server: what is written there is not what was sent.
SPOILS = """
import os, subprocess, sys
server = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE)
while data := os.read(0, 65536):
    os.write(server.stdin.fileno(), data.replace(b"echo rate 7", b"echo rate 9"))
"""
# It stays with all that it has started; at its second time it ends.
STAYS_ONCE = f"""
rm "$HOME/seen" 2>/dev/null && exit 0
: >"$HOME/seen"
{FAMILY}
exec sleep {MARK}
"""
OF_BOTH_FAMILIES = 8


def test_a_host_that_stores_a_file_wrongly_is_reported(osmef: Osmef, lab: Lab) -> None:
    there = [path for path in SFTP_SERVERS if Path(path).exists()]
    if not there:
        pytest.skip("no sftp-server here (Debian: apt install openssh-sftp-server)")
    (osmef.directory / "spoils.py").write_text(SPOILS)
    path = osmef.directory / "bench.tar.gz"
    path.write_bytes(of_script("osmef-bench", BENCH))
    config = lab.folder / "b" / "config"
    # The root of this machine has another home, in which a virtual environment or Python may be.
    python = shutil.which("python3", path=os.defpath) or os.path.realpath(sys.executable)
    server = f"{python} {osmef.directory}/spoils.py {there[0]}"
    lab.switch_off("b")
    config.write_text(config.read_text().replace("internal-sftp", server))
    run = [argv("osmef-bench", "1", on="both")]
    workload = {**bench(), "run": run, "bundles": {"osmef-bench": str(path)}}
    with lab.switched_on("b"):
        ended = osmef("run", osmef.write(text_of([workload], **ENDS)), prefix=lab.prefix)
        assert ended.code == 3, ended.err
        assert "b: " in ended.err
        assert "/osmef-bench is not the file that was sent" in ended.err
        assert "disk full or failing?" in ended.err
        assert not (osmef.run / "trials.jsonl").exists()
        assert lab.left() == []


def test_a_lost_connection_leaves_no_process_and_costs_no_trial(osmef: Osmef, lab: Lab) -> None:
    stays = {"kind": "program", "duration": "60s", "run": [sh(STAYS_ONCE, on="both")]}
    workloads: list[Mapping[str, object]] = [stays, Case([argv("true")]).workload]
    process = osmef.start("run", osmef.write(text_of(workloads, **ENDS)), prefix=lab.prefix)
    until(lambda: len(sleepers()) == OF_BOTH_FAMILIES)
    lab.hang_up("b")
    until(lambda: not sleepers())
    ended = osmef.finish(process)
    assert ended.code == 0, ended.err
    assert "no answer from host-2 (b)" in ended.err
    assert "host-2 (b) answers again" in ended.err
    assert [trial["status"] for trial in osmef.trials] == ["ok", "ok"]
    assert lab.left() == []


def test_a_cable_that_is_cut_leaves_no_program_beyond_its_deadline(osmef: Osmef, lab: Lab) -> None:
    stays = {**Case([sh(f"{FAMILY}; exec sleep {MARK}", on="both")]).workload, "deadline": "5s"}
    workloads: list[Mapping[str, object]] = [stays, Case([argv("true")]).workload]
    process = osmef.start("run", osmef.write(text_of(workloads, **ENDS)), prefix=lab.prefix)
    until(lambda: len(sleepers()) == OF_BOTH_FAMILIES)
    lab.plug("down")
    until(lambda: not sleepers())
    lab.plug("up")
    ended = osmef.finish(process)
    assert ended.code == 1, ended.err
    failed, good = osmef.trials
    assert (failed["failure"]["kind"], good["status"]) == ("program", "ok")
    assert "sh: the program still ran after 5 s" in failed["failure"]["message"]
    assert lab.left() == []
